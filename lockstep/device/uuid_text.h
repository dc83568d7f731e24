// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Formats an NVIDIA device's UUID as nvidia-smi does, "GPU-" and the bytes in groups of 4, 2, 2, 2 and 6. A slice of a
/// device (MIG) has "MIG-" instead. The runtime identifies a slice only by its `name`.
std::string uuid_text(std::span<const char, 16> bytes, std::string_view name);

}  // namespace lockstep
