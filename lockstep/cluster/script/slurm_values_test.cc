// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/slurm_values.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

SlurmShape shape_of(const std::string& text) {
  SlurmOptions options;
  read_slurm_options(sbatch_words(text), 1, options);
  return slurm_shape(options);
}

TEST(SlurmTime, TakesEveryForm) {
  // Source: sbatch(1), --time.
  EXPECT_EQ(slurm_time("90")->count(), 90 * 60);
  EXPECT_EQ(slurm_time("90:30")->count(), 90 * 60 + 30);
  EXPECT_EQ(slurm_time("1:02:03")->count(), 3723);
  EXPECT_EQ(slurm_time("2-1")->count(), 49 * 3600);
  EXPECT_EQ(slurm_time("2-1:30")->count(), 49 * 3600 + 1800);
  EXPECT_EQ(slurm_time("0-02:00:00")->count(), 7200);
  for (const auto* text : {"", "one", "1:2:3:4", "-5", "1-", "99999999999999999999"})
    EXPECT_FALSE(slurm_time(text)) << text;
}

TEST(SlurmMemory, CountsInMebibytes) {
  EXPECT_EQ(slurm_memory_mib("96g"), 96 * 1024);
  EXPECT_EQ(slurm_memory_mib("64"), 64);
  EXPECT_EQ(slurm_memory_mib("1T"), 1024 * 1024);
  EXPECT_EQ(slurm_memory_mib("1025K"), 2);
  EXPECT_EQ(slurm_memory_mib("0"), 0);
  for (const auto* text : {"", "G", "16Q", "1.5G", "-1"}) EXPECT_FALSE(slurm_memory_mib(text)) << text;
}

TEST(SlurmGres, TakesNameTypeAndCount) {
  EXPECT_EQ(slurm_gres("gpu:4")->count, 4);
  EXPECT_EQ(slurm_gres("gpu")->count, 1);
  EXPECT_EQ(slurm_gres("gpu:a100")->type, "a100");
  EXPECT_EQ(slurm_gres("gpu:a100:2")->count, 2);
  EXPECT_FALSE(slurm_gres("gpu:a100:x"));
  EXPECT_FALSE(slurm_gres(""));
}

TEST(SlurmShape, WorksOutNodesTasksAndDevices) {
  const auto plain = shape_of("-N 2 --ntasks-per-node=4 --gres=gpu:4");
  EXPECT_EQ(plain.job_tasks(), 8);
  EXPECT_EQ(plain.node_devices(), 4);
  EXPECT_EQ(shape_of("-n 8 --ntasks-per-node=4").job_nodes(), 2);
  EXPECT_EQ(shape_of("").job_tasks(), 1);
  EXPECT_EQ(shape_of("-N2 -n4 --gpus=8").node_devices(), 4);
  EXPECT_EQ(shape_of("-N1 -n4 --gpus-per-task=a100:1").node_devices(), 4);
}

TEST(SlurmShape, LeavesOpenWhatSlurmChooses) {
  EXPECT_FALSE(shape_of("-n 8").job_nodes());
  EXPECT_FALSE(shape_of("-N 2-4").job_nodes());
  EXPECT_FALSE(shape_of("-N 2 -n 3").node_tasks());
  EXPECT_FALSE(shape_of("-n 8 --gpus=8").node_devices());
}

}  // namespace
}  // namespace lockstep
