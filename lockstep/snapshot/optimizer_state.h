// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/optim/optimizer.h>

#include <map>
#include <string>
#include <vector>

#include "lockstep/format/optimizer_names.h"
#include "lockstep/snapshot/snapshot.h"

namespace torch::nn {
class Module;
}

namespace lockstep {

/// Maps each parameter's TensorImpl to its name.
std::map<const void*, std::string> parameter_names(const torch::nn::Module& module);

/// Throws: Error(kUsage) if the optimizer is of a kind whose state a snapshot cannot hold.
void require_known_kind(const torch::optim::Optimizer& optimizer);

/// Returns an optimizer's state as tensors, named by optimizer_tensor_name(). `names` is from
/// parameter_names(). The parts are "momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq" and "step".
///
/// Throws: Error(kUsage) if a snapshot cannot hold this kind of state, or if a parameter has no name.
std::vector<SavedTensor> optimizer_tensors(torch::optim::Optimizer& optimizer,
                                           const std::map<const void*, std::string>& names, OptimizerPlace place = {});

/// Restores the state. The optimizer's own options decide its kind. Tensors of other optimizers are ignored.
///
/// Throws: Error(kData) naming a tensor that belongs to no parameter, has another shape than its parameter, or was
///         written by another kind of optimizer.
void restore_optimizer(torch::optim::Optimizer& optimizer, const std::map<const void*, std::string>& names,
                       const std::map<std::string, at::Tensor>& tensors, OptimizerPlace place = {});

}  // namespace lockstep
