// SPDX-License-Identifier: Apache-2.0
// Environments of real launches, kept in tests/golden/environments beside the scripts that made them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/launch/placement/placement.h"
#include "tests/support/source_root.h"

namespace lockstep {
namespace {

using nlohmann::json;

std::map<std::string, json> recordings() {
  const auto folder = lockstep::testing::source_root() / "tests/golden/environments";
  std::map<std::string, json> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json")
      all[entry.path().stem().string()] = json::parse(text_of_file(entry.path()));
  }
  return all;
}

Placement placement_of(const json& rank) {
  return placement_from(Environment(rank.at("environment").get<Environment::Map>()));
}

json seen(const Placement& at) {
  json device = nullptr;
  if (at.device) device = *at.device;
  return {
      {"rank", at.rank},           {"world", at.world}, {"local_rank", at.local_rank}, {"local_world", at.local_world},
      {"node_rank", at.node_rank}, {"nodes", at.nodes}, {"source", at.source},         {"device", device}};
}

TEST(RecordedEnvironments, EachRankIsPlacedAsItsCommandLineAsks) {
  int recorded = 0;
  for (const auto& [name, launch] : recordings()) {
    EXPECT_TRUE(launch.at("recorded").get<bool>() || launch.contains("page")) << name;
    recorded += launch.at("recorded").get<bool>() ? 1 : 0;
    for (const auto& rank : launch.at("ranks")) {
      EXPECT_EQ(seen(placement_of(rank)), rank.at("expected")) << name << ": " << launch.at("command");
    }
  }
  EXPECT_GE(recorded, 40);
}

TEST(RecordedEnvironments, AllRanksOfAStepShareOneJobKey) {
  for (const auto& [name, launch] : recordings()) {
    std::set<std::string> jobs;
    for (const auto& rank : launch.at("ranks")) jobs.insert(placement_of(rank).job);
    EXPECT_EQ(jobs.size(), 1U) << name;
    if (launch.at("ranks")[0].at("expected").at("source") != "slurm") continue;
    EXPECT_NE(*jobs.begin(), "") << name;
  }
}

TEST(RecordedEnvironments, ARequeuedJobHasANewKeyForTheSameRun) {
  const Placement at = placement_of(recordings().at("sbatch-requeued").at("ranks")[0]);
  EXPECT_EQ(at.restart, 1);
  EXPECT_EQ(at.job, at.run + "-r1");
}

TEST(RecordedEnvironments, HostsComeInTheOrderOfNodes) {
  const auto all = recordings();
  for (const auto* name :
       {"srun-node-gap", "srun-arbitrary", "srun-heterogeneous", "sbatch-heterogeneous", "srun-plane"}) {
    for (const auto& rank : all.at(name).at("ranks")) {
      const Placement at = placement_of(rank);
      EXPECT_EQ(at.hosts.at(static_cast<std::size_t>(at.node_rank)),
                rank.at("environment").at("SLURMD_NODENAME").get<std::string>())
          << name;
    }
  }
}

}  // namespace
}  // namespace lockstep
