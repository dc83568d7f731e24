// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/comm/collective_maker.h"

namespace lockstep::gpu {

/// NCCL's, or RCCL's.
const CollectiveMaker& collective_maker();

/// "NCCL 2.28.9"
std::string collectives_version();

}  // namespace lockstep::gpu
