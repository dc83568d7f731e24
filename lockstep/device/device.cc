// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/device.h"

#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep {

Accelerator accelerator_named(const std::string& name) {
  if (name == "auto") return Accelerator::kAuto;
  if (name == "cpu") return Accelerator::kCpu;
  if (name == "gpu") return Accelerator::kGpu;
  throw Error(ErrorKind::kRecipe, "trainer.accelerator is '" + name + "', want auto, cpu or gpu");
}

bool node_has_gpus() { return ::access("/dev/nvidiactl", F_OK) == 0 || ::access("/dev/kfd", F_OK) == 0; }

c10::Device chosen_device(Accelerator accelerator) {
  if (accelerator == Accelerator::kCpu) return c10::Device(c10::kCPU);
  if (node_has_gpus()) {
    throw Error(ErrorKind::kEnvironment, "this node has GPUs, but this build of lockstep-train computes on CPU only",
                "set trainer.accelerator = \"cpu\" to train on CPU all the same");
  }
  if (accelerator == Accelerator::kGpu) {
    throw Error(ErrorKind::kEnvironment, "trainer.accelerator is gpu, but this node has none",
                "start on a node with GPUs, or set trainer.accelerator = \"cpu\"");
  }
  return c10::Device(c10::kCPU);
}

}  // namespace lockstep
