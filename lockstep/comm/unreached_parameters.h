// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "lockstep/comm/module_tensors.h"

namespace lockstep {

/// Returns the names of the parameters that a loss does not depend on.
std::vector<std::string> unreached_parameters(const std::vector<NamedTensor>& parameters, const at::Tensor& loss);

}  // namespace lockstep
