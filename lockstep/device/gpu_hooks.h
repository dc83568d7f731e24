// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

namespace lockstep {

/// Makes LibTorch check again whether it has code for GPUs. Call it once a library has brought that code.
void look_for_gpu_code_again();

/// Seeds the device's random numbers like the CPU's, if LibTorch has its code for GPUs. torch::manual_seed() may have
/// been called before that code was loaded. It does so once, for the first device that it is called for.
void share_seed(const c10::Device& device);

}  // namespace lockstep
