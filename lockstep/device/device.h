// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace lockstep {

/// What a person asked for: `trainer.accelerator`.
enum class Accelerator { kAuto, kCpu, kGpu };

/// Throws: Error(kRecipe) for another name than auto, cpu, gpu.
Accelerator accelerator_named(const std::string& name);

/// The device that this rank computes on.
///
/// Throws: Error(kEnvironment) where the node has GPUs but this build or its LibTorch cannot use them: never a silent
/// run on CPU.
c10::Device chosen_device(Accelerator accelerator);

/// A claim: the node has a GPU driver loaded, whatever LibTorch makes of it.
bool node_has_gpus();

}  // namespace lockstep
