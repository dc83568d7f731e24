// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/device.h"

#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/device/gpu_hooks.h"
#include "lockstep/device/gpu_library.h"

namespace lockstep {
namespace {

// NVIDIA devices that are visible to one task each (--gpus-per-task) cannot copy to each other directly.
constexpr const char* kAskHint =
    "ask the scheduler for as many devices on each node as it has tasks (--gpus-per-node), seen by all of them";
constexpr const char* kCpuHint = "set trainer.accelerator = \"cpu\" to train on CPU all the same";

RankDevice cpu_device() { return {.facts = cpu_backend().devices().front()}; }

std::string rank_text(const DeviceRequest& request) {
  return "local rank " + std::to_string(request.local_rank) + " of " + std::to_string(request.local_world) +
         " on this node";
}

int index_of(const DeviceRequest& request, int visible) {
  const int index = request.index.value_or(visible == 1 ? 0 : request.local_rank);
  if (index < visible) return index;
  if (request.may_share) return index % visible;
  throw Error(
      ErrorKind::kEnvironment,
      rank_text(request) + " wants device " + std::to_string(index) + ", but sees " + counted(visible, "device"),
      "start as many tasks on each node as it has devices, or set trainer.share_device = true");
}

// Without these variables LibTorch converts each channels_last tensor before each convolution of MIOpen. Tensors in
// other layouts are not affected. Source: ATen/native/ConvUtils.h, miopen_conv_suggest_memory_format().
void set_miopen_layout() {
  for (const char* name : {"PYTORCH_MIOPEN_SUGGEST_NHWC", "PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM"}) {
    ::setenv(name, "1", /*overwrite=*/0);
  }
}

}  // namespace

Accelerator accelerator_named(const std::string& name) {
  if (name == "auto") return Accelerator::kAuto;
  if (name == "cpu") return Accelerator::kCpu;
  if (name == "gpu") return Accelerator::kGpu;
  throw Error(ErrorKind::kRecipe, "trainer.accelerator is '" + name + "', want auto, cpu or gpu");
}

std::string RankDevice::description() const {
  std::string text = facts.name;
  if (!facts.architecture.empty()) {
    text += " (" + facts.architecture + ", " + human_bytes(static_cast<std::uint64_t>(facts.memory_bytes)) + ")";
  }
  if (!facts.pci.empty()) text += ", " + facts.pci;
  if (!facts.uuid.empty()) text += ", " + facts.uuid;
  return text;
}

bool node_has_gpus() { return ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/dev/kfd", F_OK) == 0; }

NodeDevices this_node() {
  return {.has_gpus = node_has_gpus(), .backend = []() -> const DeviceBackend& { return gpu_backend(); }};
}

RankDevice chosen_device(const DeviceRequest& request, const NodeDevices& node) {
  if (request.accelerator == Accelerator::kCpu) return cpu_device();
  const bool is_wanted = request.accelerator == Accelerator::kGpu;
  if (!node.has_gpus) {
    if (!is_wanted) return cpu_device();
    throw Error(ErrorKind::kEnvironment, "trainer.accelerator is gpu, but this node has none",
                "start on a node with GPUs, or set trainer.accelerator = \"cpu\"");
  }
  if (request.are_hidden) {
    if (!is_wanted) return cpu_device();
    throw Error(ErrorKind::kEnvironment, "trainer.accelerator is gpu, but CUDA_VISIBLE_DEVICES or its like hides all",
                std::string(kAskHint) + "; or set trainer.accelerator = \"cpu\"");
  }
  const auto& backend = node.backend();
  const auto devices = backend.devices();
  if (devices.empty()) {
    throw Error(ErrorKind::kEnvironment, "this node has GPUs, but this process sees none of them",
                std::string(kAskHint) + "; or " + kCpuHint);
  }
  RankDevice chosen;
  chosen.visible = static_cast<int>(devices.size());
  chosen.facts = devices[static_cast<std::size_t>(index_of(request, chosen.visible))];
  chosen.device = c10::Device(backend.type(), static_cast<c10::DeviceIndex>(chosen.facts.index));
  chosen.backend = &backend;
  backend.prepare(chosen.facts.index);
  share_seed(chosen.device);
  if (backend.runtime().kind == "ROCm") set_miopen_layout();
  return chosen;
}

}  // namespace lockstep
