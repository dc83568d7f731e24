// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/optim/optimizer.h>

#include <map>
#include <string>
#include <vector>

#include "lockstep/snapshot/snapshot.h"

namespace lockstep {

/// Throws: Error(kUsage) where the optimizer is of a kind whose state no snapshot can hold.
void require_known_kind(const torch::optim::Optimizer& optimizer);

/// An optimizer's state as tensors named `<parameter>.<part>`, the parts named as in PyTorch's state_dict:
/// "momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step". `names` maps each parameter's TensorImpl to
/// its name.
///
/// Throws: Error(kUsage) for state of a kind unknown here, or of a parameter without a name.
std::vector<SavedTensor> optimizer_tensors(torch::optim::Optimizer& optimizer,
                                           const std::map<const void*, std::string>& names);

/// Puts it back. The kind of state is what the optimizer's own options say.
///
/// Throws: Error(kData) naming a tensor that does not belong, whose shape is not its parameter's, or which another kind
/// of
///         optimizer wrote.
void restore_optimizer(torch::optim::Optimizer& optimizer, const std::map<const void*, std::string>& names,
                       const std::map<std::string, at::Tensor>& tensors);

}  // namespace lockstep
