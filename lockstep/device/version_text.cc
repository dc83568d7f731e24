// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/version_text.h"

namespace lockstep {

// Source: CUDART_VERSION in the CUDA runtime's cuda_runtime_api.h, the major number times 1000 plus the minor times 10.
std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Source: HIP_VERSION in HIP's hip_version.h, the major number times 10000000 plus the minor times 100000 plus a patch.
std::string hip_version_text(int version) {
  return std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100);
}

}  // namespace lockstep
