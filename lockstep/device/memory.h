// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace lockstep {

/// Bytes that this process could still take: of the device, or of the machine and the control group that it is in.
std::int64_t free_memory(const c10::Device& device);

/// The most bytes that this process has held at once since forget_peak_memory(); on a CPU all of the process.
std::int64_t peak_memory(const c10::Device& device);
void forget_peak_memory(const c10::Device& device);

}  // namespace lockstep
