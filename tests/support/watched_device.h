// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "lockstep/comm/group_impl.h"
#include "tests/support/fake_device.h"

namespace lockstep::testing {

/// A fake of the collectives between devices. The test decides whether and how they fail.
struct ToldCollectives : CollectiveMaker {
  c10::intrusive_ptr<c10d::Backend> make(const CollectiveRequest&) const override { return {}; }
  std::optional<std::string> failure(c10d::Backend&) const override {
    if (++asked < fails_at) return std::nullopt;
    return "NCCL: remote process exited or there was a network error";
  }
  void end(c10d::Backend&, bool has_failed) const noexcept override {
    if (has_failed && waits_for != nullptr) waits_for->acquire();
    ended.push_back(has_failed);
  }
  std::binary_semaphore* waits_for = nullptr;  ///< As NCCL waits for each graph that holds a collective.
  int fails_at = 1'000'000;
  mutable int asked = 0;
  mutable std::vector<bool> ended;
};

struct NoBackend : c10d::Backend {
  NoBackend() : Backend(/*rank=*/0, /*size=*/1) {}
};

/// Makes a group that has joined compute on a fake device, which has collectives of its own. The tensors still travel
/// through Gloo. `device` must outlive the group.
inline Group on_device(Group group, const FakeBackend& device) {
  group.impl().device = {.facts = device.devices().front(), .visible = 1, .backend = &device};
  group.impl().between_devices = c10::make_intrusive<NoBackend>();
  return group;
}

/// A fake device whose waits look at the fake collectives five times.
struct WatchedDevice : FakeBackend {
  WatchedDevice() : FakeBackend(1) { looks = 5; }
  const CollectiveMaker* collectives() const override { return &told; }
  Group group(std::chrono::milliseconds timeout, int world = 1) const {
    auto impl = std::make_unique<Group::Impl>();
    impl->timeout = timeout;
    impl->placement.world = world;
    return on_device(Group(std::move(impl)), *this);
  }
  ToldCollectives told;
};

}  // namespace lockstep::testing
