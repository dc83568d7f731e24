// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/device/backend.h"

namespace lockstep::gpu {

std::unique_ptr<StepGraph> make_step_graph(int index);

}  // namespace lockstep::gpu
