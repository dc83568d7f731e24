// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// The place of an optimizer among those of a training.
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

/// Returns the name of such a tensor in a snapshot, "fc.weight.exp_avg" if there is one optimizer. With several it is
/// "1/fc.weight.exp_avg" for the second.
std::string optimizer_tensor_name(const OptimizerTensor& tensor, std::size_t optimizers);

/// Returns what optimizer_tensor_name() named so among as many optimizers, or nothing if it names nothing so.
std::optional<OptimizerTensor> parsed_optimizer_tensor(std::string_view name, std::size_t optimizers);

}  // namespace lockstep
