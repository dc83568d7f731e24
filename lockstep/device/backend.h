// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The interface to a kind of device: its facts, its memory, and operations for which LibTorch has no common call.
///
///     const auto& device = world.device();
///     const auto runtime = device.backend->runtime();
///     std::cout << runtime.kind << ", " << device.backend->memory(device.index()).available << " bytes are free\n";
///     device.backend->synchronize(device.index());

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class CollectiveMaker;  // comm/collective_maker.h
class CopyStream;       // device/streams.h

/// One of the devices that this process sees.
struct DeviceFacts {
  int index = 0;
  std::string name{};          ///< "NVIDIA H200"
  std::string pci{};           ///< "0000:3b:00.0". Empty if it has none.
  std::string uuid{};          ///< "GPU-1f0c…". Empty if it has none.
  std::string architecture{};  ///< "sm_90", "gfx90a"
  std::int64_t memory_bytes = 0;
};

/// The software between LibTorch and the devices.
struct RuntimeFacts {
  std::string kind{};         ///< "CUDA", "ROCm", "CPU"
  std::string driver{};       ///< The newest runtime that the driver supports, such as "13.0".
  std::string runtime{};      ///< The runtime that this process has loaded, such as "13.0".
  std::string collectives{};  ///< "NCCL 2.28.9"
};

/// Units: bytes.
struct DeviceMemory {
  std::int64_t total = 0;
  std::int64_t free = 0;       ///< Not taken by any process.
  std::int64_t available = 0;  ///< Free for this process, with the unused memory of its allocator and of recordings.
  std::int64_t held = 0;       ///< Bytes that this process's tensors hold now. On a CPU, all memory of the process.
  std::int64_t peak = 0;       ///< The largest `held` since forget_peak().
};

/// Work on a device that is recorded once and then replayed with one call. A replay uses the same memory and the same
/// arguments as the recorded work.
class StepGraph {
 public:
  virtual ~StepGraph() = default;

  /// Records all that `work` puts on this thread's current stream, and on streams that wait for it. Nothing is run.
  /// Throws: what `work` throws; c10::Error if the device cannot record it. The object cannot be used after that.
  virtual void capture(const std::function<void()>& work) = 0;

  /// Runs the recorded work on the current stream. Random numbers come from the generators' present state.
  virtual void replay() = 0;
};

/// Operations on a kind of device that ATen does not dispatch by itself. A process has one such object for each kind.
/// The CPU's is cpu_backend().
///
/// Threads: const functions are safe.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual c10::DeviceType type() const = 0;
  virtual RuntimeFacts runtime() const = 0;

  /// Returns the devices that this process sees, by index. Empty if all devices are hidden from it.
  /// Throws: Error(kEnvironment) if LibTorch cannot use the driver, with the message of device_error().
  virtual std::vector<DeviceFacts> devices() const = 0;

  /// Makes `index` this thread's device and runs a small product on it. So a device, driver or library that cannot
  /// compute is found before anything else is done.
  /// Blocks: until the product is computed. Throws: Error(kEnvironment), with the message of device_error().
  virtual void prepare(int index) const = 0;

  virtual DeviceMemory memory(int index) const = 0;
  virtual void forget_peak(int index) const = 0;

  /// Waits for the device. If given, `look` is called now and then meanwhile. An exception from it ends the wait.
  /// Blocks: until the device has done all of its work. With `look`, until it has done the work on this thread's
  /// current stream.
  virtual void synchronize(int index, const std::function<void()>& look) const = 0;
  void synchronize(int index) const { synchronize(index, {}); }

  /// Marks the present end of this thread's current stream. The returned function does not block, and returns true once
  /// the device has done all that came before the mark.
  virtual std::function<bool()> mark(int index) const = 0;

  /// Frees the memory that the device's allocator has cached and that no tensor uses.
  virtual void give_back_memory(int index) const = 0;

  /// Returns a stream that copies while the device computes. Null for a CPU, which needs no copy.
  virtual std::unique_ptr<CopyStream> copy_stream(int index) const = 0;

  /// Returns an empty recording. Null if work cannot be recorded.
  virtual std::unique_ptr<StepGraph> step_graph(int index) const = 0;

  /// Names a range of this thread's time for the maker's profiler (NVTX, ROCTX). If no profiler runs, it costs almost
  /// nothing.
  virtual void push_range(const char* name) const = 0;
  virtual void pop_range() const = 0;

  /// Returns the object that makes collectives between such devices. Null if collectives go through Gloo.
  virtual const CollectiveMaker* collectives() const = 0;
};

}  // namespace lockstep
