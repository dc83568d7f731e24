// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/optim/optimizer.h>

#include <map>
#include <string>

namespace lockstep {

/// Returns an optimizer's kind and its groups' settings as JSON under PyTorch's names, to make PyTorch's state_dict
/// from a snapshot. The form is {"name": "adam", "groups": [{"settings": {"lr": 0.1, …}, "params": ["fc.weight", …]}]}.
/// `names` maps each parameter's TensorImpl to its name.
///
/// Throws: Error(kUsage) if the optimizer is not one of LibTorch's that snapshots support, or if a parameter has no
///         name.
std::string optimizer_settings(const torch::optim::Optimizer& optimizer,
                               const std::map<const void*, std::string>& names);

}  // namespace lockstep
