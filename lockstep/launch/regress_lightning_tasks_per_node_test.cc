// SPDX-License-Identifier: Apache-2.0
// Lightning refuses a job of several tasks unless --ntasks-per-node was given. It did so under `lockstep exec` too.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "lockstep/launch/task_environment.h"

namespace lockstep {
namespace {

/// Returns the SLURM_NTASKS_PER_NODE of the first of four tasks, in a step with this distribution of tasks to nodes.
std::optional<std::string> told(const char* spread, int local_world, int nodes, Environment::Map more = {}) {
  more.emplace("SLURM_STEP_TASKS_PER_NODE", spread);
  Placement at;
  at.source = "slurm";
  at.world = 4;
  at.local_world = local_world;
  at.nodes = nodes;
  return task_environment(at, Environment(std::move(more)), {}, {}).env.get("SLURM_NTASKS_PER_NODE");
}

TEST(TasksPerNode, AreSaidWhereEachNodeHasAsMany) {
  EXPECT_EQ(told("4", 4, 1), "4");
  EXPECT_EQ(told("2(x2)", 2, 2), "2");
  EXPECT_EQ(told("3,1", 3, 2), std::nullopt);
  EXPECT_EQ(told("1,2,1", 2, 3), std::nullopt);
}

TEST(TasksPerNode, StayAsSlurmSaidThem) { EXPECT_EQ(told("4", 4, 1, {{"SLURM_NTASKS_PER_NODE", "8"}}), "8"); }

}  // namespace
}  // namespace lockstep
