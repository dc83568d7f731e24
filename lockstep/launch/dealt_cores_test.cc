// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/dealt_cores.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

/// The variables that slurmd 22.05 sets for `srun -n8 -c10` on a node of two sockets with 40 cores each.
const Environment kTwoSockets{
    {"SLURM_CPU_BIND_TYPE", "mask_cpu:"},
    {"SLURM_CPU_BIND_LIST",
     "0x000000000000000003FF,0x00000003FF0000000000,0x000000000000000FFC00,0x00000FFC000000000000,"
     "0x0000000000003FF00000,0x003FF000000000000000,0x0000000000FFC0000000,0xFFC00000000000000000"}};

TEST(DealtCores, AreWhatSlurmSaysOfEachTask) {
  const auto sets = cpus_bound_by_slurm(kTwoSockets);
  ASSERT_EQ(sets.size(), 8U);
  EXPECT_EQ(list_of(sets[1]), "40-49");
  EXPECT_EQ(list_of(sets[7]), "70-79");
  EXPECT_TRUE(cpus_bound_by_slurm(Environment{}).empty());
  EXPECT_TRUE(cpus_bound_by_slurm({{"SLURM_CPU_BIND_TYPE", "none"}, {"SLURM_CPU_BIND_LIST", ""}}).empty());
}

TEST(DealtCores, EachTaskHasASetNearItsDevicesAndNoneIsDealtTwice) {
  const CpuSet first = cpus_of_list("0-39");
  const CpuSet second = cpus_of_list("40-79");
  const auto dealt =
      deal_cores(cpus_bound_by_slurm(kTwoSockets), {first, first, first, first, second, second, second, second});
  std::string text;
  for (const auto& set : dealt) text += list_of(set) + " ";
  EXPECT_EQ(text, "0-9 20-29 10-19 30-39 40-49 60-69 50-59 70-79 ");
}

TEST(DealtCores, WhereTooFewAreNearEachSetStillHasOneTask) {
  const auto dealt = deal_cores({{0}, {1}, {2}}, {{2}, {2}, {2}});
  EXPECT_EQ(dealt, (std::vector<CpuSet>{{0}, {1}, {2}}));
}

}  // namespace
}  // namespace lockstep
