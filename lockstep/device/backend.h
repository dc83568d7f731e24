// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  std::string pci{};           ///< "0000:3b:00.0"; empty where it has none.
  std::string uuid{};          ///< "GPU-1f0c…"; empty where it has none.
  std::string architecture{};  ///< "sm_90", "gfx90a"
  std::int64_t memory_bytes = 0;
};

/// What stands between LibTorch and the devices.
struct RuntimeFacts {
  std::string kind{};         ///< "CUDA", "ROCm", "CPU"
  std::string driver{};       ///< The newest runtime that the driver serves: "13.0".
  std::string runtime{};      ///< The one that LibTorch was built with: "13.0".
  std::string collectives{};  ///< "NCCL 2.28.9"
};

/// Units: bytes.
struct DeviceMemory {
  std::int64_t total = 0;
  std::int64_t available = 0;  ///< What this process could still take, what its allocator keeps unused included.
  std::int64_t held = 0;       ///< By this process's tensors now; on a CPU all that the process has.
  std::int64_t peak = 0;       ///< The most that were held at once since forget_peak().
};

/// A piece of work on a device that is recorded once and then given to it with one call. What it wrote when recorded
/// it writes when replayed: to the same memory, and as it was told then.
class StepGraph {
 public:
  virtual ~StepGraph() = default;

  /// Records all that `work` puts on this thread's current stream, and on streams that wait for it; nothing is run.
  /// Throws: what `work` throws; c10::Error where the device cannot record it. The object is then of no more use.
  virtual void capture(const std::function<void()>& work) = 0;

  /// Runs it on the current stream. Random numbers are drawn as the generators now stand.
  virtual void replay() = 0;
};

/// What a kind of device can do beyond what ATen dispatches. One object for the process; the CPU's is cpu_backend().
///
/// Threads: const functions are safe.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual c10::DeviceType type() const = 0;
  virtual RuntimeFacts runtime() const = 0;

  /// Those that this process sees, by index; none where all are hidden from it.
  /// Throws: Error(kEnvironment) where the driver cannot serve LibTorch, as device_error() says it.
  virtual std::vector<DeviceFacts> devices() const = 0;

  /// Makes `index` this thread's device and runs a small product on it, so that a device, driver or library that
  /// cannot compute is found before anything else is done.
  /// Blocks: until it is done. Throws: Error(kEnvironment), as device_error() says it.
  virtual void prepare(int index) const = 0;

  virtual DeviceMemory memory(int index) const = 0;
  virtual void forget_peak(int index) const = 0;

  /// Calls `look`, where there is one, now and then meanwhile; what it throws ends the wait.
  /// Blocks: until the device has done all that it was given; with `look`, what this thread's current stream was given.
  virtual void synchronize(int index, const std::function<void()>& look) const = 0;
  void synchronize(int index) const { synchronize(index, {}); }

  /// Copies beside the work; null where there is nothing to copy to.
  virtual std::unique_ptr<CopyStream> copy_stream(int index) const = 0;

  /// Null where work cannot be recorded.
  virtual std::unique_ptr<StepGraph> step_graph(int index) const = 0;

  /// Names a range of this thread's time for the maker's profiler (NVTX, ROCTX). Costs next to nothing without one.
  virtual void push_range(const char* name) const = 0;
  virtual void pop_range() const = 0;

  /// How ranks on such devices talk; null where Gloo serves.
  virtual const CollectiveMaker* collectives() const = 0;
};

}  // namespace lockstep
