// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The device on which a rank computes, and how it is chosen.
///
///     auto world = lockstep::join({.accelerator = lockstep::Accelerator::kAuto});
///     const lockstep::RankDevice& device = world.device();
///     std::cout << device.description() << "\n";
///     auto on_device = input.to(device.device);

#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>

#include "lockstep/device/backend.h"
#include "lockstep/device/cpu_backend.h"

namespace lockstep {

/// The kind of device that the user chose in `trainer.accelerator`.
enum class Accelerator { kAuto, kCpu, kGpu };

/// Returns the accelerator of that name. Throws: Error(kRecipe) for another name than auto, cpu, gpu.
Accelerator accelerator_named(const std::string& name);

/// The device on which a rank computes. It is ready for use.
struct RankDevice {
  c10::Device device{c10::kCPU};
  DeviceFacts facts{.name = "CPU"};
  int visible = 1;  ///< Devices that this process sees.
  const DeviceBackend* backend = &cpu_backend();

  /// True if work is complete when the call that starts it returns.
  bool is_cpu() const { return backend->type() == c10::kCPU; }
  int index() const { return facts.index; }
  DeviceMemory memory() const { return backend->memory(index()); }
  /// Returns a description, such as "NVIDIA H200 (sm_90, 139.8 GiB), 0000:3b:00.0, GPU-1f0c…".
  std::string description() const;
};

/// A rank's request for a device.
struct DeviceRequest {
  Accelerator accelerator = Accelerator::kAuto;
  int local_rank = 0;
  int local_world = 1;
  std::optional<int> index{};  ///< The launcher's choice, Placement::device.
  bool are_hidden = false;     ///< True if the environment hides all devices, by choice of the user or the scheduler.
  bool may_share = false;      ///< `trainer.share_device`
};

/// The devices of a node. Tests pass their own.
struct NodeDevices {
  bool has_gpus = false;
  std::function<const DeviceBackend&()> backend{};  ///< Loads the backend for GPUs. Throws: Error(kEnvironment).
};
NodeDevices this_node();

/// Chooses the device for one rank. It is the device that the launcher gave to the rank. Otherwise it is index 0 if the
/// rank sees one device, and the local rank if it sees several.
///
/// Throws: Error(kEnvironment) if the node has GPUs that cannot be used, or fewer GPUs than ranks. The run never
/// changes to the CPU silently.
RankDevice chosen_device(const DeviceRequest& request, const NodeDevices& node);

/// True if the node has a GPU driver loaded, even if LibTorch cannot use it.
bool node_has_gpus();

}  // namespace lockstep
