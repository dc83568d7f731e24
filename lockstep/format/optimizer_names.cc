// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/optimizer_names.h"

#include "lockstep/base/text.h"

namespace lockstep {

std::string optimizer_tensor_name(const OptimizerTensor& tensor, std::size_t optimizers) {
  const auto name = tensor.parameter + "." + tensor.part;
  return optimizers > 1 ? std::to_string(tensor.optimizer) + "/" + name : name;
}

// A parameter's own name may hold "/", so only the number of optimizers decides whether there is a prefix.
std::optional<OptimizerTensor> parsed_optimizer_tensor(std::string_view name, std::size_t optimizers) {
  OptimizerTensor out;
  if (optimizers > 1) {
    const auto slash = name.find('/');
    const auto index = parsed_int<std::size_t>(name.substr(0, slash));
    if (slash == std::string_view::npos || !index || *index >= optimizers) return std::nullopt;
    out.optimizer = *index;
    name.remove_prefix(slash + 1);
  }
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  out.parameter = name.substr(0, dot);
  out.part = name.substr(dot + 1);
  return out;
}

}  // namespace lockstep
