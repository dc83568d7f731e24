// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/profiler_trace.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/support/pretended_device.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

// A wait of the trace's own would not notice that a peer is lost.
TEST(ProfilerTrace, WaitsForTheDeviceOnlyAsItIsTold) {
  const testing::TemporaryFolder folder;
  const testing::Pretended device;
  const auto group = device.group();
  int waits = 0;
  ProfilerTrace trace({.first = 1,
                       .last = 2,
                       .file = folder.path() / "rank-0.pt.trace.json",
                       .device = group.device(),
                       .await_device = [&] { ++waits; }},
                      Log(2, ""));
  trace.on(RunStarted{});
  trace.on(StepEnded{.step = 1});
  EXPECT_EQ(waits, 0);
  trace.on(StepEnded{.step = 2});
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(device.synchronisations, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "rank-0.pt.trace.json"));
}

}  // namespace
}  // namespace lockstep
