// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace torch::cuda::nccl {
std::uint64_t version();
}
