// SPDX-License-Identifier: Apache-2.0
// Two clusters with one home shared a stored answer of squeue, so a running job of one looked ended from the other.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/cluster/job/queue.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class QueueOfAnotherCluster : public ::testing::Test {
 protected:
  QueueOfAnotherCluster() {
    std::ofstream(folder_.path() / "squeue") << "#!/bin/sh\necho \"$NUMBER|RUNNING|None|N/A\"\n";
    fs::permissions(folder_.path() / "squeue", fs::perms::owner_all);
  }
  /// Returns the ids of the jobs that are found if squeue lists the job `number`.
  std::string first_job(const std::string& number, const std::string& variable, const std::string& value) const {
    const Environment env{{"PATH", folder_.path().string() + ":/usr/bin:/bin"},
                          {"LOCKSTEP_CACHE", (folder_.path() / "cache").string()},
                          {"NUMBER", number},
                          {variable, value}};
    return SlurmQueue(env).jobs().begin()->first;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(QueueOfAnotherCluster, IsAskedIfTheVariableNamesAnother) {
  EXPECT_EQ(first_job("1", "SLURM_CLUSTERS", "big"), "1");
  EXPECT_EQ(first_job("2", "SLURM_CLUSTERS", "small"), "2");
  EXPECT_EQ(first_job("3", "SLURM_CLUSTERS", "big"), "1") << "the stored answer is still young";
}

TEST_F(QueueOfAnotherCluster, IsAskedIfTheConfigurationNamesAnother) {
  EXPECT_EQ(first_job("1", "SLURM_CLUSTER_NAME", "big"), "1");
  EXPECT_EQ(first_job("2", "SLURM_CLUSTER_NAME", "small"), "2");
  EXPECT_EQ(first_job("3", "SLURM_CLUSTER_NAME", "big"), "1");
}

}  // namespace
}  // namespace lockstep
