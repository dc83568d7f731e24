// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/queue.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// Output of `sinfo --noheader --format=%P|%c|%G` of Slurm 22.05 and 23.11.
constexpr std::string_view kNodes =
    "debug*|32|(null)\n"
    "debug*|48+|gpu:a100:4(S:0-1,3),tmp:1\n"
    "debug*|128|gpu:a100:4,shard:16\n"
    "big|96|gpu:h100:2,gpu:mi250:4\n"
    "plain|64|(null)\n";

TEST(SlurmNodes, HaveTheCoresAndDevicesOfTheirPartition) {
  const auto node = parsed_nodes(kNodes, "debug");
  ASSERT_TRUE(node);
  EXPECT_EQ(node->cores, 48) << "of several kinds, the one with the fewest cores for a device";
  EXPECT_EQ(node->devices, 4);
  EXPECT_EQ(parsed_nodes(kNodes, "")->cores, 48) << "the default partition has a star";
  EXPECT_EQ(parsed_nodes(kNodes, "big")->devices, 6);
}

TEST(SlurmNodes, AreUnknownWithoutDevices) {
  EXPECT_FALSE(parsed_nodes(kNodes, "plain"));
  EXPECT_FALSE(parsed_nodes(kNodes, "other"));
  EXPECT_FALSE(parsed_nodes("", ""));
}

TEST(SlurmQueue, CallsAJobThatSlurmSignalsRunning) {
  const auto jobs = parsed_queue(
      "7|SIGNALING|None|2026-11-21T13:31:30\n"
      "8|RESIZING|None|2026-11-21T13:31:30\n"
      "9|COMPLETING|None|2026-11-21T13:31:30\n"
      "10|PENDING|Priority|N/A\n");
  EXPECT_EQ(jobs.at("7").state, "RUNNING");
  EXPECT_EQ(jobs.at("8").state, "RUNNING");
  EXPECT_EQ(jobs.at("9").state, "COMPLETING");
  EXPECT_EQ(jobs.at("10").state, "PENDING");
  EXPECT_EQ(jobs.at("10").reason, "Priority");
}

}  // namespace
}  // namespace lockstep
