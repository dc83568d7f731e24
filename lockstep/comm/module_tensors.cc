// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/module_tensors.h"

#include <unordered_set>

#include "lockstep/base/text.h"

namespace lockstep {

std::vector<NamedTensor> trained_parameters(const torch::nn::Module& module) {
  std::vector<NamedTensor> out;
  std::unordered_set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad() && seen.insert(item.value().unsafeGetTensorImpl()).second) {
      out.push_back({item.key(), item.value()});
    }
  }
  return out;
}

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& each : parameters) {
    if (each.grad().defined()) gradients.push_back(each.grad());
  }
  return gradients;
}

std::vector<at::Tensor> tensors_of(const torch::OrderedDict<std::string, at::Tensor>& named) {
  std::vector<at::Tensor> out;
  for (const auto& item : named) out.push_back(item.value());
  return out;
}

std::string description(const torch::nn::Module& module) {
  std::string text;
  const auto add = [&](const char* kind, const auto& item) {
    std::vector<std::string> sizes;
    for (const auto size : item.value().sizes()) sizes.push_back(std::to_string(size));
    text += std::string(kind) + " " + item.key() + " [" + joined(sizes, ", ") + "] " +
            c10::toString(item.value().scalar_type()) + "\n";
  };
  for (const auto& item : module.named_parameters()) {
    add(item.value().requires_grad() ? "parameter" : "frozen parameter", item);
  }
  for (const auto& item : module.named_buffers()) add("buffer", item);
  return text;
}

}  // namespace lockstep
