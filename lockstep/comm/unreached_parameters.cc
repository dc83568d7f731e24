// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/unreached_parameters.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <unordered_set>

namespace lockstep {

std::vector<std::string> unreached_parameters(const std::vector<NamedTensor>& parameters, const at::Tensor& loss) {
  std::unordered_set<const void*> leaves;
  std::unordered_set<torch::autograd::Node*> visited;
  std::vector<torch::autograd::Node*> open{loss.grad_fn().get()};
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    if (node == nullptr || !visited.insert(node).second) continue;
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      leaves.insert(leaf->variable.unsafeGetTensorImpl());
    }
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  std::vector<std::string> names;
  for (const auto& each : parameters) {
    if (!leaves.contains(each.tensor.unsafeGetTensorImpl())) names.push_back(each.name);
  }
  return names;
}

}  // namespace lockstep
