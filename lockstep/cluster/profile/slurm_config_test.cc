// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/profile/slurm_config.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::TemporaryFolder;

TEST(SlurmConfig, IsReadFromWhatScontrolShows) {
  // From slurm-wlm 22.05.8.
  const auto config = parsed_slurm_config(
      "Configuration data as of 2026-11-23T07:16:35\nAccountingStorageEnforce = none\n"
      "ClusterName             = recorded\nGresTypes               = (null)\n"
      "MpiParams               = ports=10020-10099\n\nSlurmctld(primary) at x is UP\n");
  EXPECT_EQ(config, (SlurmConfig{{"AccountingStorageEnforce", "none"},
                                 {"ClusterName", "recorded"},
                                 {"MpiParams", "ports=10020-10099"}}));
}

TEST(SlurmClusterName, ComesFromTheJobThenFromTheFile) {
  const TemporaryFolder root;
  std::filesystem::create_directories(root.path() / "etc/slurm");
  write_whole(root.path() / "etc/slurm/slurm.conf", "# ClusterName=old\nClusterName=Ours # us\nSlurmctldPort=1\n");
  EXPECT_EQ(slurm_cluster_name(Environment{{"PATH", "/none"}}, root.path()), "ours");
  EXPECT_EQ(slurm_cluster_name(Environment{{"SLURM_CLUSTER_NAME", "Job"}}, root.path()), "job");
  EXPECT_EQ(slurm_cluster_name(Environment{{"PATH", "/none"}}, "/none"), "");
}

}  // namespace
}  // namespace lockstep
