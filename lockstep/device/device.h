// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>

#include "lockstep/device/backend.h"
#include "lockstep/device/cpu_backend.h"

namespace lockstep {

/// What a person asked for: `trainer.accelerator`.
enum class Accelerator { kAuto, kCpu, kGpu };

/// Throws: Error(kRecipe) for another name than auto, cpu, gpu.
Accelerator accelerator_named(const std::string& name);

/// The device that a rank computes on, ready for use.
struct RankDevice {
  c10::Device device{c10::kCPU};
  DeviceFacts facts{.name = "CPU"};
  int visible = 1;  ///< Devices that this process sees.
  const DeviceBackend* backend = &cpu_backend();

  /// A claim: work is done when the call that asks for it returns.
  bool is_cpu() const { return backend->type() == c10::kCPU; }
  int index() const { return facts.index; }
  DeviceMemory memory() const { return backend->memory(index()); }
  /// "NVIDIA H200 (sm_90, 139.8 GiB), 0000:3b:00.0, GPU-1f0c…"
  std::string description() const;
};

/// What is known of a rank before it has a device.
struct DeviceRequest {
  Accelerator accelerator = Accelerator::kAuto;
  int local_rank = 0;
  int local_world = 1;
  std::optional<int> index{};  ///< As the launcher's variables say it: Placement::device.
  bool are_hidden = false;     ///< The variables show none: a person, or the scheduler, wants it so.
  bool may_share = false;      ///< `trainer.share_device`
};

/// What a node offers. A test has its own.
struct NodeDevices {
  bool has_gpus = false;
  std::function<const DeviceBackend&()> backend{};  ///< Loads what serves them. Throws: Error(kEnvironment).
};
NodeDevices this_node();

/// The device for one rank: the one that its launcher gave it; else index 0 where it sees one, and the local rank where
/// it sees several.
///
/// Throws: Error(kEnvironment) where the node has GPUs that cannot be used, or fewer than ranks: never a silent run on
/// CPU.
RankDevice chosen_device(const DeviceRequest& wish, const NodeDevices& node);

/// A claim: the node has a GPU driver loaded, whatever LibTorch makes of it.
bool node_has_gpus();

}  // namespace lockstep
