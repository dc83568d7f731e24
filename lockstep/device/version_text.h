// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// Formats a version number of the CUDA runtime. 13000 is "13.0".
std::string cuda_version_text(int version);

/// Formats a version number of the HIP runtime. 71526333 is "7.15".
std::string hip_version_text(int version);

}  // namespace lockstep
