// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/task/lost_task.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

/// A folder with processes as /proc has them.
class SrunOfStep : public ::testing::Test {
 protected:
  void add(int pid, const std::string& name, int parent, const std::string& restarts, const std::string& job = "7") {
    const auto folder = root_.path() / "proc" / std::to_string(pid);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "comm") << name << "\n";
    std::ofstream(folder / "stat") << pid << " (" << name << ") S " << parent << " 1 1 0\n";
    std::string variables = "SLURM_JOB_ID=" + job + "\nLOCKSTEP_RUN_DIR=/runs/a\nLOCKSTEP_RESTARTS=" + restarts + "\n";
    std::ranges::replace(variables, '\n', '\0');
    std::ofstream(folder / "environ") << variables;
  }

  const Environment env_{
      {{"SLURM_JOB_ID", "7"}, {"LOCKSTEP_RUN_DIR", "/runs/a"}, {"LOCKSTEP_RESTARTS", "1"}, {"SLURM_PROCID", "0"}}};
  testing::TemporaryFolder root_;
};

TEST_F(SrunOfStep, IsTheOneOfThisStartOfTheStep) {
  add(10, "bash", 1, "1");
  add(11, "srun", 10, "0");
  add(12, "srun", 10, "1", "8");
  add(13, "srun", 10, "1");
  add(14, "srun", 13, "1");
  add(15, "lockstep", 13, "1");
  EXPECT_EQ(srun_of_step(env_, root_.path()), 13);
}

TEST_F(SrunOfStep, IsNotSoughtIfTheScriptStartsNoStepAgain) {
  add(13, "srun", 10, "1");
  EXPECT_EQ(srun_of_step(Environment({{"SLURM_JOB_ID", "7"}, {"LOCKSTEP_RUN_DIR", "/runs/a"}}), root_.path()),
            std::nullopt);
}

TEST_F(SrunOfStep, IsNotFoundOnAnotherNode) { EXPECT_EQ(srun_of_step(env_, root_.path()), std::nullopt); }

}  // namespace
}  // namespace lockstep
