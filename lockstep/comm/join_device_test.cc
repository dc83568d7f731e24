// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/join_device.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <semaphore>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "lockstep/base/clock.h"
#include "lockstep/comm/control_tensor.h"
#include "lockstep/comm/gloo/store_bytes.h"
#include "lockstep/comm/join.h"
#include "lockstep/device/watched_wait.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/watched_device.h"

namespace lockstep {
namespace {

using testing::WatchedDevice;

TEST(RanksOnOneDevice, AreFoundWhereverTheyAre) {
  EXPECT_EQ(ranks_on_one_device({}), (std::vector<int>{}));
  EXPECT_EQ(ranks_on_one_device({7, 8, 9}), (std::vector<int>{}));
  EXPECT_EQ(ranks_on_one_device({7, 8, 7, 9, 7}), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(ranks_on_one_device({1, 2, 3, 3}), (std::vector<int>{2, 3}));
}

TEST(DeviceKey, IsTheDevicesOwnWhateverIndexAProcessSeesItAt) {
  const DeviceFacts first{.index = 0, .pci = "0000:3b:00.0", .uuid = "GPU-1"};
  auto other = first;
  other.index = 1;
  EXPECT_EQ(device_key("node", first), device_key("node", other));
  EXPECT_NE(device_key("node", first), device_key("another", first));
  other.uuid = "MIG-2";
  EXPECT_NE(device_key("node", first), device_key("node", other)) << "slices of one device have one address";
  EXPECT_NE(device_key("node", {.index = 0}), device_key("node", {.index = 1}));
}

TEST(AGroupOfOne, HasTheDeviceThatItWasGivenAndSharesItWithNobody) {
  auto group = alone();
  EXPECT_TRUE(group.device().is_cpu());
  EXPECT_EQ(group.device().description(), "CPU");
  EXPECT_FALSE(group.shares_device());
  group.require_sound();
}

TEST(ControlTensor, BringsSignalsAndSamples) {
  ControlTensor control{at::TensorOptions(at::kFloat)};
  control.write({true, false}, 12);
  control.leaf().mutable_grad() = control.gradient().clone();
  EXPECT_EQ(control.read(), (ControlTensor::Signals{true, false}));
  EXPECT_EQ(control.mean_samples(), 12);
  EXPECT_EQ(control.mean_samples_there().item<float>(), 12);
  control.write({false, true}, 3);
  control.leaf().mutable_grad() = control.gradient().clone();
  EXPECT_EQ(control.read(), (ControlTensor::Signals{false, true}));
}

TEST(AWaitForTheDevice, LooksAtTheCollectivesMeanwhile) {
  WatchedDevice device;
  {
    auto group = device.group(std::chrono::hours(1));
    group.await_device();
    EXPECT_EQ(device.told.asked, device.looks + 1);
  }
  EXPECT_EQ(device.told.ended, std::vector{false});
}

TEST(AWaitForTheDevice, EndsTheCollectivesWhereAPeerIsGone) {
  WatchedDevice device;
  device.told.fails_at = 3;
  {
    auto group = device.group(std::chrono::hours(1));
    EXPECT_HAS(testing::message_of(ErrorKind::kPeer, [&] { group.await_device(); }), "remote process exited");
    EXPECT_EQ(device.told.asked, 3);
  }
  EXPECT_EQ(device.told.ended, std::vector{true});
}

TEST(AWaitForTheDevice, EndsTheCollectivesWhereNothingComes) {
  WatchedDevice device;
  {
    auto group = device.group(std::chrono::milliseconds(0));
    EXPECT_HAS(testing::message_of(ErrorKind::kPeer, [&] { group.await_device(); }), "has not done its step for 0 s");
  }
  EXPECT_EQ(device.told.ended, std::vector{true});
}

// NCCL need not notice a peer on the same node that has gone.
TEST(AWaitForTheDevice, EndsTheCollectivesWhereARankHasLeft) {
  struct BusyDevice : WatchedDevice {
    void synchronize(int, const std::function<void()>& look) const override {
      watched_wait([start = Clock::now()] { return Clock::now() - start > std::chrono::seconds(20); }, look);
    }
  };
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->set("left", to_bytes("rank 3 left the others: the disk is full"));
  BusyDevice device;
  {
    auto group = device.group(std::chrono::hours(1));
    group.impl().store = store;
    group.impl().asks_store_every = std::chrono::milliseconds(0);
    EXPECT_HAS(testing::message_of(ErrorKind::kPeer, [&] { group.await_device(); }),
               "a peer rank was lost while ranks talked from device to device: rank 3 left the others: the disk is");
  }
  EXPECT_EQ(device.told.ended, std::vector{true});
}

TEST(AWaitForTheDevice, ThatFailsWithARecordingAliveLeavesTheCallerFreeToDropIt) {
  WatchedDevice device;
  std::binary_semaphore graph_is_dropped(0);
  device.told.fails_at = 1;
  device.told.waits_for = &graph_is_dropped;
  {
    auto group = device.group(std::chrono::hours(1));
    EXPECT_HAS(testing::message_of(ErrorKind::kPeer, [&] { group.await_device(); }), "remote process exited");
    graph_is_dropped.release();
  }
  EXPECT_EQ(device.told.ended, std::vector{true});
}

TEST(AWaitForTheDevice, ThatCannotEndItsCollectivesEndsTheProcessWithThePeersCode) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        WatchedDevice device;
        std::binary_semaphore never(0);
        device.told.fails_at = 1;
        device.told.waits_for = &never;
        auto group = device.group(std::chrono::hours(1));
        group.impl().ends_within = std::chrono::milliseconds(0);
        testing::message_of(ErrorKind::kPeer, [&] { group.await_device(); });
      },
      ::testing::ExitedWithCode(7), "error: NCCL: remote process exited.*; what talks between devices has not ended");
}

TEST(WatchedWait, AsksUntilItIsDone) {
  int asked = 0;
  watched_wait([&] { return ++asked == 300; }, {});
  EXPECT_EQ(asked, 300);
  EXPECT_THROW(watched_wait([] { return false; }, [] { throw std::runtime_error("enough"); }), std::runtime_error);
}

TEST(Readback, GivesWhatWasBegun) {
  Readback readback;
  EXPECT_FALSE(readback.has_begun());
  readback.begin(at::arange(3, at::kFloat));
  EXPECT_TRUE(at::equal(readback.wait(), at::arange(3, at::kFloat)));
  EXPECT_FALSE(readback.has_begun());
}

}  // namespace
}  // namespace lockstep
