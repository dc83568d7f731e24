// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/slurm_tool.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

TEST(SlurmTool, RunsWithoutTheUsersFiltersAndFormats) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.path() / "squeue") << "#!/bin/sh\nenv | grep -E '^S[A-Z]*_' | sort\n";
  fs::permissions(folder.path() / "squeue", fs::perms::owner_all);
  const Environment env{{"PATH", folder.path().string() + ":/usr/bin:/bin"},
                        {"SQUEUE_STATES", "PENDING"},
                        {"SQUEUE_ALL", "yes"},
                        {"SINFO_PARTITION", "debug"},
                        {"SACCT_FORMAT", "JobID"},
                        {"SCANCEL_STATE", "PENDING"},
                        {"SCONTROL_FUTURE", "yes"},
                        {"SLURM_TIME_FORMAT", "relative"},
                        {"SLURM_CLUSTERS", "big"},
                        {"SLURM_CONF", "/etc/slurm.conf"}};
  EXPECT_EQ(run_slurm_tool({"squeue", "--me"}, env).output,
            "SLURM_CLUSTERS=big\nSLURM_CONF=/etc/slurm.conf\nSQUEUE_ALL=yes\n");
}

TEST(SlurmTool, TellsAJobThatSlurmDoesNotKnowFromABusySlurm) {
  EXPECT_TRUE(
      is_unknown_job({.exit_code = 1, .output = {}, .errors = "slurm_load_jobs error: Invalid job id specified"}));
  EXPECT_FALSE(is_unknown_job({.exit_code = 1, .output = {}, .errors = "slurm_load_jobs error: Socket timed out"}));
  EXPECT_FALSE(is_unknown_job({}));
}

}  // namespace
}  // namespace lockstep
