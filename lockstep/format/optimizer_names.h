// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// The index of an optimizer among the optimizers of a training, and their number.
struct OptimizerPlace {
  std::size_t index = 0;
  std::size_t count = 1;
};

/// A tensor of an optimizer's state. `part` is named as in PyTorch's state_dict, such as "exp_avg".
struct OptimizerTensor {
  std::size_t optimizer = 0;  ///< Index among those of the training.
  std::string parameter;
  std::string part;

  bool operator==(const OptimizerTensor&) const = default;
};

/// Returns the tensor's name in a snapshot. If there is one optimizer, it is such as "fc.weight.exp_avg". With several
/// optimizers, the second one has "1/fc.weight.exp_avg".
std::string optimizer_tensor_name(const OptimizerTensor& tensor, std::size_t optimizers);

/// Returns the tensor to which optimizer_tensor_name() gives this name, with this number of optimizers. Nothing if it
/// is no such name.
std::optional<OptimizerTensor> parsed_optimizer_tensor(std::string_view name, std::size_t optimizers);

}  // namespace lockstep
