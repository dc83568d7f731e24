// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/device/device.h"
#include "lockstep/device/streams.h"

namespace lockstep::testing {

/// A fake kind of device, which records the calls that it gets. Tensors "on" this device are on the CPU.
class FakeBackend : public DeviceBackend {
 public:
  explicit FakeBackend(int count) {
    for (int i = 0; i < count; ++i) {
      devices_.push_back({.index = i,
                          .name = "Fake 9000",
                          .pci = "0000:0" + std::to_string(i) + ":00.0",
                          .uuid = "GPU-" + std::to_string(i),
                          .architecture = "sm_00",
                          .memory_bytes = std::int64_t{16} << 30});
    }
  }

  c10::DeviceType type() const override { return c10::kCUDA; }
  RuntimeFacts runtime() const override { return runtime_now; }
  std::vector<DeviceFacts> devices() const override { return devices_; }
  void prepare(int index) const override { prepared.push_back(index); }
  DeviceMemory memory(int) const override { return memory_now; }
  void forget_peak(int) const override {}
  using DeviceBackend::synchronize;
  void synchronize(int, const std::function<void()>& look) const override {
    ++synchronisations;
    for (int i = 0; look && i < looks; ++i) look();
  }
  std::function<bool()> mark(int) const override {
    ++marks;
    return [] { return true; };
  }
  void give_back_memory(int) const override { ++times_given_back; }
  std::unique_ptr<CopyStream> copy_stream(int) const override { return nullptr; }
  std::unique_ptr<StepGraph> step_graph(int) const override { return nullptr; }
  void push_range(const char* name) const override { ranges.push_back(name); }
  void pop_range() const override { ranges.emplace_back("end"); }
  const CollectiveMaker* collectives() const override { return nullptr; }

  DeviceMemory memory_now{};
  RuntimeFacts runtime_now{.kind = "Fake", .driver = "2.0", .runtime = "1.0", .collectives = "Gloo"};
  mutable int marks = 0;
  mutable int times_given_back = 0;
  mutable std::vector<int> prepared;
  mutable int synchronisations = 0;
  int looks = 0;  ///< How often a wait for it looks.
  mutable std::vector<std::string> ranges;

 private:
  std::vector<DeviceFacts> devices_;
};

}  // namespace lockstep::testing
