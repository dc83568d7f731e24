// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/slurm_records.h"

#include <gtest/gtest.h>

#include "lockstep/cluster/survey/accounts.h"
#include "lockstep/cluster/survey/module_list.h"
#include "lockstep/cluster/survey/mounts.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(SlurmRecords, AreReadFromOneLineEachOrFromSeveral) {
  // The second record is as scontrol(1) prints it without --oneliner.
  const auto records = parsed_slurm_records(
      "NodeName=n1 Arch=x86_64 CPUTot=16 Gres=(null) OS=Linux 6.1.0-18 #1 SMP Partitions=cpu \n"
      "NodeName=n2 Arch=aarch64 \n   CPUTot=8 Gres=gpu:a100:4(S:0-1)\n   Reason=not now NodeName=x "
      "[root@2026-11-23]\n\n",
      "NodeName");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].text("OS"), "Linux 6.1.0-18 #1 SMP");
  EXPECT_EQ(records[0].text("Gres"), "");
  EXPECT_EQ(records[0].number("CPUTot"), 16);
  EXPECT_EQ(records[1].text("NodeName"), "n2") << "what an administrator writes into Reason names no node";
  EXPECT_EQ(records[1].text("Gres"), "gpu:a100:4(S:0-1)");
  EXPECT_EQ(records[1].number("Arch"), std::nullopt);
}

TEST(SlurmGres, HasANameAPerhapsATypeAndACount) {
  const std::vector<Gres> several = {{"gpu", "a100", 4}, {"gpu", "v100", 2}, {"shard", "", 24}};
  EXPECT_EQ(parsed_gres("gpu:a100:4(S:0,1),gpu:v100:2(S:1),shard:24(0/24,1/24)"), several);
  EXPECT_EQ(parsed_gres("gpu:8"), (std::vector<Gres>{{"gpu", "", 8}}));
  EXPECT_EQ(parsed_gres("gpu"), (std::vector<Gres>{{"gpu", "", 1}}));
  EXPECT_EQ(parsed_gres("gpu:h100"), (std::vector<Gres>{{"gpu", "h100", 1}}));
  EXPECT_EQ(parsed_gres("nvme:no_consume:800G"), (std::vector<Gres>{{"nvme", "no_consume", 800}}));
  EXPECT_TRUE(parsed_gres("(null)").empty());
  EXPECT_TRUE(parsed_gres("").empty());
}

TEST(SlurmTimes, AreLimitsOrNone) {
  EXPECT_EQ(parsed_slurm_time("2-00:00:00"), 48h);
  EXPECT_EQ(parsed_slurm_time("00:30:00"), 30min);
  for (const auto* none : {"UNLIMITED", "NONE", "INFINITE", "", "30", "x:y:z"}) {
    EXPECT_EQ(parsed_slurm_time(none), std::nullopt) << none;
  }
}

TEST(UserAccounts, AreThoseOfThisClusterEachOnce) {
  const auto found = parsed_accounts("ours|p1|normal,long\nOURS|p2|normal\ntheirs|p3|normal\n", "p2\n", "ours");
  EXPECT_EQ(found.accounts, (std::vector<std::string>{"p1", "p2"}));
  EXPECT_EQ(found.qos, (std::vector<std::string>{"normal", "long"}));
  EXPECT_EQ(found.default_account, "p2");
  EXPECT_EQ(parsed_accounts("ours|p1|\n", "p3\n", "ours").default_account, "") << "it is one of another cluster";
  EXPECT_TRUE(parsed_accounts("", "", "ours").accounts.empty());
}

TEST(QosLimits, AreTimeNodesAndDevicesOfAJob) {
  const auto all = parsed_qos("normal||\nlong|5-00:00:00|cpu=64,gres/gpu=8,gres/gpu:a100=4,node=2\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].time, std::nullopt);
  EXPECT_EQ(all[1].time, 120h);
  EXPECT_EQ(all[1].max_nodes, 2);
  EXPECT_EQ(all[1].max_devices, 8);
}

TEST(Mounts, TellTheTypeBelowAFolder) {
  const auto mounts = parsed_mounts(
      "/dev/sda1 / ext4 rw 0 0\n10.0.0.1@o2ib:/scratch /scratch lustre rw,flock 0 0\ntmpfs /tmp tmpfs rw 0 0\n"
      "nas:/a\\040b /mnt/a\\040b nfs4 rw 0 0\ntmpfs /scratch/.x tmpfs rw 0 0\n");
  EXPECT_EQ(type_at(mounts, "/scratch/me"), "lustre");
  EXPECT_EQ(type_at(mounts, "/scratchy"), "ext4");
  EXPECT_EQ(type_at(mounts, "/mnt/a b/c"), "nfs4");
  EXPECT_TRUE(is_shared_type("lustre"));
  EXPECT_TRUE(is_memory_type(type_at(mounts, "/tmp")));
  EXPECT_EQ(type_at({}, "/tmp"), "");
}

TEST(Modules, AreNamesWithoutHeadingsAndMarks) {
  // First the output of `module -t avail` of Lmod 8, then of environment-modules 5.
  EXPECT_EQ(parsed_modules("/apps/modules/all:\nPyTorch/\nPyTorch/2.5.1(default)\nCUDA/12.6.0 <L>\n"),
            (std::vector<std::string>{"PyTorch/2.5.1", "CUDA/12.6.0"}));
  EXPECT_EQ(parsed_modules("/usr/share/modules/modulefiles:\ndot\nmodule-git\n"),
            (std::vector<std::string>{"dot", "module-git"}));
}

}  // namespace
}  // namespace lockstep
