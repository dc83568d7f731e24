// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/task_environment.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/base/file.h"
#include "lockstep/launch/rendezvous.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using nlohmann::json;
using testing::message_of;

std::filesystem::path golden() { return lockstep::testing::source_root() / "tests/golden"; }

/// Returns the variables that a rank gets, in the form of task_environments.json.
json row_of(const Placement& at, const Environment& env, std::map<std::string, std::set<int>>& derived,
            const std::string& launch) {
  json port = nullptr;
  TaskFacts facts;
  facts.master = {"10.0.0.1", 1};
  try {
    const auto agreed = agreed_port(at, env);
    port = agreed ? json(*agreed) : json("free");
    facts.master.port = agreed.value_or(1);
    if (agreed && !at.master && !env.get("MASTER_PORT") &&
        !(at.source == "slurm" && env.get("SLURM_STEP_RESV_PORTS"))) {
      derived[launch].insert(*agreed);
      port = "derived";
    }
  } catch (const Error& refusal) {
    EXPECT_EQ(refusal.kind(), ErrorKind::kEnvironment);
    port = "refused";
  }
  const auto made = task_environment(at, env, {}, facts).env;
  const auto number = [&](const char* name) { return *made.get_int(name); };
  json device = nullptr;
  if (at.device) device = *at.device;
  return {number("RANK"), number("WORLD_SIZE"), number("LOCAL_RANK"), device, port};
}

TEST(TaskEnvironments, EachRecordedLaunchGetsWhatItsCommandLineAsksFor) {
  const auto table = json::parse(text_of_file(golden() / "task_environments.json"));
  EXPECT_GE(table.size(), 40U);
  std::map<std::string, std::set<int>> derived;
  for (const auto& [launch, rows] : table.items()) {
    const auto recorded = json::parse(text_of_file(golden() / "environments" / (launch + ".json"))).at("ranks");
    ASSERT_EQ(recorded.size(), rows.size()) << launch;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Environment env(recorded[i].at("environment").get<Environment::Map>());
      EXPECT_EQ(row_of(placement_from(env), env, derived, launch), rows[i]) << launch;
    }
  }
  for (const auto& [launch, ports] : derived) EXPECT_EQ(ports.size(), 1U) << launch << ": all ranks derive one port";
}

Placement second_of_four() {
  Placement at;
  at.rank = 1;
  at.world = 4;
  at.local_rank = 1;
  at.local_world = 2;
  at.nodes = 2;
  at.device = 1;
  at.source = "slurm";
  at.job = "4711.0";
  return at;
}

TaskFacts facts_of(std::optional<GpuMaker> maker = std::nullopt) {
  TaskFacts facts;
  facts.master = {"10.1.2.3", 28532};
  facts.gpu_maker = maker;
  return facts;
}

TEST(TaskEnvironments, HoldTheSevenThatTorchrunSetsAndUnbufferedPython) {
  const auto made = task_environment(second_of_four(), {{"PATH", "/bin"}}, {}, facts_of());
  const Environment::Map wanted = {
      {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.1.2.3"}, {"MASTER_PORT", "28532"},
      {"NODE_RANK", "0"},  {"PATH", "/bin"},          {"PYTHONUNBUFFERED", "1"},   {"RANK", "1"},
      {"WORLD_SIZE", "4"}};
  EXPECT_EQ(made.env.all(), wanted);
  EXPECT_TRUE(made.notes.empty());
}

TEST(TaskEnvironments, AWrongRankOfTheUsersIsReplacedWithANote) {
  const auto made = task_environment(second_of_four(), {{"WORLD_SIZE", "8"}}, {}, facts_of());
  EXPECT_EQ(made.env.get("WORLD_SIZE"), "4");
  ASSERT_EQ(made.notes.size(), 1U);
  EXPECT_EQ(made.notes[0], "WORLD_SIZE='8' was set; slurm says '4', which it is now");
}

TEST(TaskEnvironments, AnotherVariableOfTheUsersIsKeptWithANoteWhereTheSiteDiffers) {
  TaskSettings site{.cluster = "lumi-g"};
  site.variables.always = {{"NCCL_SOCKET_IFNAME", "hsn0,hsn1"}, {"NCCL_NET_GDR_LEVEL", "PHB"}};
  TaskFacts facts = facts_of();
  facts.threads = 7;
  const Environment env{{"NCCL_SOCKET_IFNAME", "eth0"}, {"OMP_NUM_THREADS", "2"}};
  const auto made = task_environment(second_of_four(), env, site, facts);
  EXPECT_EQ(made.env.get("NCCL_SOCKET_IFNAME"), "eth0");
  EXPECT_EQ(made.env.get("NCCL_NET_GDR_LEVEL"), "PHB");
  EXPECT_EQ(made.env.get("OMP_NUM_THREADS"), "2");
  ASSERT_EQ(made.notes.size(), 1U);
  EXPECT_EQ(made.notes[0], "NCCL_SOCKET_IFNAME='eth0' is kept; lumi-g would have 'hsn0,hsn1'");
}

TEST(TaskEnvironments, AVariableThatTheUserEmptiedStaysEmpty) {
  TaskSettings site;
  site.variables.always = {{"NCCL_NET", "IB"}};
  EXPECT_EQ(task_environment(second_of_four(), {{"NCCL_NET", ""}}, site, facts_of()).env.all().at("NCCL_NET"), "");
}

TEST(TaskEnvironments, OneNodeAndSeveralHaveVariablesOfTheirOwn) {
  TaskSettings site;
  site.variables.always = {{"NCCL_NET", "generic"}, {"A", "{user}-{job}-{local_rank}"}};
  site.variables.on_one_node = {{"NCCL_NET", "Socket"}};
  site.variables.on_several_nodes = {{"NCCL_NET", "AWS Libfabric"}};
  Placement at = second_of_four();
  const auto several = task_environment(at, {{"USER", "ada"}}, site, facts_of()).env;
  EXPECT_EQ(several.get("NCCL_NET"), "AWS Libfabric");
  EXPECT_EQ(several.get("A"), "ada-4711.0-1");
  at.nodes = 1;
  EXPECT_EQ(task_environment(at, {}, site, facts_of()).env.get("NCCL_NET"), "Socket");
}

TEST(TaskEnvironments, APlaceThatNothingFillsIsAnErrorOfTheProfile) {
  TaskSettings site;
  site.variables.always = {{"TORCH_HOME", "/scratch/{projekt}"}};
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { task_environment(second_of_four(), {}, site, facts_of()); }),
             "TORCH_HOME='/scratch/{projekt}': there is nothing to fill in for '{projekt}'");
}

TEST(TaskEnvironments, OneDeviceOfSeveralIsShownWhereTheSiteWantsThat) {
  const TaskSettings site{.devices = DeviceVisibility::kOne};
  const Environment slurm{
      {"CUDA_VISIBLE_DEVICES", "4,5"}, {"ROCR_VISIBLE_DEVICES", "4,5"}, {"GPU_DEVICE_ORDINAL", "4,5"}};
  const auto amd = task_environment(second_of_four(), slurm, site, facts_of(GpuMaker::kAmd)).env;
  EXPECT_EQ(amd.get("ROCR_VISIBLE_DEVICES"), "5");
  EXPECT_FALSE(amd.all().contains("CUDA_VISIBLE_DEVICES")) << "HIP would count it within what ROCm leaves";
  const auto nvidia = task_environment(second_of_four(), slurm, site, facts_of(GpuMaker::kNvidia)).env;
  EXPECT_EQ(nvidia.get("CUDA_VISIBLE_DEVICES"), "5");
  EXPECT_EQ(task_environment(second_of_four(), {}, site, facts_of(GpuMaker::kAmd)).env.get("ROCR_VISIBLE_DEVICES"),
            "1");
}

TEST(TaskEnvironments, ATaskOfSeveralDevicesIsShownThemAllWhereTheSiteCutsTheList) {
  const TaskSettings site{.devices = DeviceVisibility::kOne};
  Placement at = second_of_four();
  const Environment all{{"ROCR_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"}};
  const auto amd = facts_of(GpuMaker::kAmd);
  at.local_rank = 0;
  at.local_world = 1;
  EXPECT_EQ(task_environment(at, all, site, amd).env.get("ROCR_VISIBLE_DEVICES"), "0,1,2,3,4,5,6,7");
  EXPECT_FALSE(task_environment(at, {}, site, amd).env.all().contains("ROCR_VISIBLE_DEVICES"));
  at.local_rank = 1;
  at.local_world = 2;
  EXPECT_EQ(task_environment(at, all, site, amd).env.get("ROCR_VISIBLE_DEVICES"), "4,5,6,7");
}

TEST(TaskEnvironments, PythonWritesAtOnceUnlessTheUserHasItOtherwise) {
  EXPECT_EQ(task_environment(second_of_four(), {}, {}, facts_of()).env.get("PYTHONUNBUFFERED"), "1");
  const Environment own{{"PYTHONUNBUFFERED", ""}};
  EXPECT_EQ(task_environment(second_of_four(), own, {}, facts_of()).env.all().at("PYTHONUNBUFFERED"), "");
}

TEST(TaskEnvironments, TheOneDeviceThatSlurmShowsOnAmdIsNotHiddenByItsOwnCudaList) {
  const Environment slurm{{"CUDA_VISIBLE_DEVICES", "3"}, {"ROCR_VISIBLE_DEVICES", "3"}};
  const auto made = task_environment(second_of_four(), slurm, {}, facts_of(GpuMaker::kAmd)).env;
  EXPECT_EQ(made.get("ROCR_VISIBLE_DEVICES"), "3");
  EXPECT_FALSE(made.all().contains("CUDA_VISIBLE_DEVICES"));
}

TEST(TaskEnvironments, OneVisibleDeviceWhereTheSiteShowsAllIsANoteWithTheFlag) {
  const TaskSettings site{.cluster = "juwels-booster", .devices = DeviceVisibility::kAll};
  Placement at = second_of_four();
  at.device = 0;
  const auto made = task_environment(at, {{"CUDA_VISIBLE_DEVICES", "1"}}, site, facts_of(GpuMaker::kNvidia));
  EXPECT_EQ(made.env.get("CUDA_VISIBLE_DEVICES"), "1") << "never more than the launcher gave";
  ASSERT_EQ(made.notes.size(), 1U);
  EXPECT_HAS(made.notes[0], "ask with --gpus-per-node, not --gpus-per-task");
}

TEST(TaskEnvironments, CachesGoToTheNodeAndMiopensToEachTask) {
  TaskFacts facts = facts_of(GpuMaker::kAmd);
  facts.caches = "/tmp/lockstep-7/caches";
  const TaskSettings site{.caches = {.variables = {"SITE_CACHE"}}};
  const auto made = task_environment(second_of_four(), {{"TRITON_CACHE_DIR", "/mine"}}, site, facts).env;
  EXPECT_EQ(made.get("MIOPEN_USER_DB_PATH"), "/tmp/lockstep-7/caches/rank-1");
  EXPECT_EQ(made.get("MIOPEN_CUSTOM_CACHE_DIR"), "/tmp/lockstep-7/caches/rank-1");
  EXPECT_EQ(made.get("SITE_CACHE"), "/tmp/lockstep-7/caches/rank-1");
  EXPECT_EQ(made.get("TORCHINDUCTOR_CACHE_DIR"), "/tmp/lockstep-7/caches/inductor");
  EXPECT_EQ(made.get("TRITON_CACHE_DIR"), "/mine");
  const auto folders = cache_folders(second_of_four(), facts);
  EXPECT_EQ(folders.own, "/tmp/lockstep-7/caches/rank-1");
  for (const auto& shared : folders.shared) EXPECT_EQ(shared.parent_path(), facts.caches);
}

TEST(TaskEnvironments, NcclsLogGetsAFileOfItsOwnUnlessTheUserHasOne) {
  TaskFacts facts = facts_of();
  facts.nccl_log = nccl_log("/runs/a", "/tmp/node", 12);
  EXPECT_EQ(facts.nccl_log, "/runs/a/logs/nccl-0012.log");
  EXPECT_EQ(nccl_log("", "/tmp/node", 12), "/tmp/node/nccl-0012.log");
  EXPECT_EQ(nccl_log("", "", 12), "");
  const auto made = task_environment(second_of_four(), {}, {}, facts).env;
  EXPECT_EQ(made.get("NCCL_DEBUG_FILE"), "/runs/a/logs/nccl-0012.log");
  EXPECT_EQ(made.get("NCCL_DEBUG"), "INFO");
  EXPECT_EQ(made.get("NCCL_DEBUG_SUBSYS"), "INIT,NET");
  const auto with_level = task_environment(second_of_four(), {{"NCCL_DEBUG", "WARN"}}, {}, facts).env;
  EXPECT_EQ(with_level.get("NCCL_DEBUG"), "WARN");
  EXPECT_FALSE(with_level.get("NCCL_DEBUG_SUBSYS"));
  const auto own = task_environment(second_of_four(), {{"NCCL_DEBUG_FILE", "/mine"}}, {}, facts).env;
  EXPECT_EQ(own.get("NCCL_DEBUG_FILE"), "/mine");
  EXPECT_FALSE(own.get("NCCL_DEBUG"));
}

TEST(DeviceOrder, IsTheSitesWhereATaskSeesAllInTheOrderOfTheirNumbers) {
  const TaskSettings site{.device_order = {"3", "2", "1", "0"}};
  const auto shown = [&](const std::string& list) {
    return *with_device_order(Environment{{"CUDA_VISIBLE_DEVICES", list}}, site).get("CUDA_VISIBLE_DEVICES");
  };
  EXPECT_EQ(shown("0,1,2,3"), "3,2,1,0");
  EXPECT_EQ(shown("1,0,2,3"), "1,0,2,3") << "the user's own order";
  EXPECT_EQ(shown("0,1"), "0,1") << "a part of the devices";
  EXPECT_FALSE(with_device_order(Environment{}, site).get("CUDA_VISIBLE_DEVICES"));
}

TEST(DeviceOrder, IsTheSitesWhereSlurmIsToldToBindNoDeviceAndNamesNone) {
  const TaskSettings site{.device_order = {"3", "2", "1", "0"}};
  const auto ordered = [&](Environment::Map variables) {
    variables["SLURMD_TRES_BIND"] = "gpu:none";
    const auto env = with_device_order(Environment(std::move(variables)), site).all();
    return env.contains("CUDA_VISIBLE_DEVICES") ? env.at("CUDA_VISIBLE_DEVICES") : "not set";
  };
  EXPECT_EQ(ordered({{"SLURM_GPUS_ON_NODE", "4"}}), "3,2,1,0");
  EXPECT_EQ(ordered({{"SLURM_GPUS_ON_NODE", "2"}}), "not set") << "a part of the devices";
  EXPECT_EQ(ordered({}), "not set") << "none at all";
  EXPECT_EQ(ordered({{"SLURM_GPUS_ON_NODE", "4"}, {"CUDA_VISIBLE_DEVICES", ""}}), "") << "hidden by the user";
}

TEST(TorchrunsVariables, AreSetForTheProgramThatReadsThem) {
  auto facts = facts_of();
  EXPECT_FALSE(task_environment(second_of_four(), {}, {}, facts).env.get("PET_NNODES"));
  facts.starts_ranks = true;
  const auto env = task_environment(second_of_four(), {{"PET_NODE_RANK", "0"}}, {}, facts).env;
  EXPECT_EQ(env.get("PET_NNODES"), "4");
  EXPECT_EQ(env.get("PET_NODE_RANK"), "0") << "the user's own is kept";
  EXPECT_EQ(env.get("PET_MASTER_ADDR"), env.get("MASTER_ADDR"));
  EXPECT_EQ(env.get("PET_MASTER_PORT"), env.get("MASTER_PORT"));
}

TEST(TorchrunsVariables, AreSetForTheOnlyTaskOfANodeWithSeveralDevices) {
  auto at = second_of_four();
  at.local_world = 1;
  EXPECT_EQ(task_environment(at, {{"CUDA_VISIBLE_DEVICES", "0,1"}}, {}, facts_of()).env.get("PET_NNODES"), "4");
  EXPECT_FALSE(task_environment(at, {{"CUDA_VISIBLE_DEVICES", "0"}}, {}, facts_of()).env.get("PET_NNODES"));
}

}  // namespace
}  // namespace lockstep
