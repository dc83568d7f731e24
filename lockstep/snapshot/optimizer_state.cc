// SPDX-License-Identifier: Apache-2.0
#include "lockstep/snapshot/optimizer_state.h"

#include <torch/torch.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using torch::optim::OptimizerParamState;

// What one kind of state is made of, by PyTorch's names; undefined tensors are left out.
using Parts = std::map<std::string, at::Tensor>;

at::Tensor number(std::int64_t value) { return at::full({}, value, at::kLong); }

template <typename State>
Parts adam_parts(const State& state) {
  return {{"step", number(state.step())},
          {"exp_avg", state.exp_avg()},
          {"exp_avg_sq", state.exp_avg_sq()},
          {"max_exp_avg_sq", state.max_exp_avg_sq()}};
}

Parts parts_of(const OptimizerParamState& state) {
  if (const auto* sgd = dynamic_cast<const torch::optim::SGDParamState*>(&state)) {
    return {{"momentum_buffer", sgd->momentum_buffer()}};
  }
  if (const auto* adam = dynamic_cast<const torch::optim::AdamParamState*>(&state)) return adam_parts(*adam);
  if (const auto* adamw = dynamic_cast<const torch::optim::AdamWParamState*>(&state)) return adam_parts(*adamw);
  throw Error(ErrorKind::kUsage, "the optimizer's state is of a kind that snapshots do not know",
              "use SGD, Adam or AdamW, or train without snapshots");
}

template <typename State>
std::unique_ptr<OptimizerParamState> adam_state(const Parts& parts) {
  auto state = std::make_unique<State>();
  for (const auto& [part, tensor] : parts) {
    if (part == "step") state->step(tensor.template item<std::int64_t>());
    if (part == "exp_avg") state->exp_avg(tensor);
    if (part == "exp_avg_sq") state->exp_avg_sq(tensor);
    if (part == "max_exp_avg_sq") state->max_exp_avg_sq(tensor);
  }
  return state;
}

std::unique_ptr<OptimizerParamState> state_from(const torch::optim::OptimizerOptions& options, const Parts& parts) {
  if (dynamic_cast<const torch::optim::SGDOptions*>(&options) != nullptr) {
    auto state = std::make_unique<torch::optim::SGDParamState>();
    if (const auto it = parts.find("momentum_buffer"); it != parts.end()) state->momentum_buffer(it->second);
    return state;
  }
  if (dynamic_cast<const torch::optim::AdamOptions*>(&options) != nullptr) return adam_state<torch::optim::AdamParamState>(parts);
  if (dynamic_cast<const torch::optim::AdamWOptions*>(&options) != nullptr) return adam_state<torch::optim::AdamWParamState>(parts);
  throw Error(ErrorKind::kUsage, "the optimizer is of a kind that snapshots do not know", "use SGD, Adam or AdamW");
}

bool is_known_part(const std::string& part) {
  return part == "step" || part == "momentum_buffer" || part == "exp_avg" || part == "exp_avg_sq" || part == "max_exp_avg_sq";
}

}  // namespace

std::vector<SavedTensor> optimizer_tensors(torch::optim::Optimizer& optimizer,
                                           const std::map<const void*, std::string>& names) {
  std::vector<SavedTensor> out;
  for (auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const auto it = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (it == optimizer.state().end()) continue;
      const std::string& name = names.at(parameter.unsafeGetTensorImpl());
      for (const auto& [part, tensor] : parts_of(*it->second)) {
        if (tensor.defined()) out.push_back({name + "." + part, tensor});
      }
    }
  }
  return out;
}

void restore_optimizer(torch::optim::Optimizer& optimizer, const std::map<const void*, std::string>& names,
                       const std::map<std::string, at::Tensor>& tensors) {
  std::map<std::string, Parts> by_parameter;
  for (const auto& [full, tensor] : tensors) {
    const auto dot = full.rfind('.');
    const std::string part = dot == std::string::npos ? full : full.substr(dot + 1);
    if (dot == std::string::npos || !is_known_part(part)) {
      throw Error(ErrorKind::kData, "the snapshot's optimizer holds '" + full + "', which is no part of an optimizer's state",
                  "it was written by another program, or is damaged; resume from an earlier one");
    }
    by_parameter[full.substr(0, dot)][part] = tensor;
  }
  for (auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const std::string& name = names.at(parameter.unsafeGetTensorImpl());
      const auto node = by_parameter.extract(name);
      if (node.empty()) continue;
      Parts parts;
      for (const auto& [part, tensor] : node.mapped()) {
        if (part != "step" && tensor.sizes() != parameter.sizes()) {
          throw Error(ErrorKind::kData, "the snapshot's '" + name + "." + part + "' has another shape than its parameter",
                      "resume with the recipe that wrote the snapshot, or start anew with --resume none");
        }
        parts[part] = part == "step" ? tensor : tensor.to(parameter.device(), /*non_blocking=*/false, /*copy=*/true);
      }
      optimizer.state()[parameter.unsafeGetTensorImpl()] = state_from(group.options(), parts);
    }
  }
  if (by_parameter.empty()) return;
  throw Error(ErrorKind::kData, "the snapshot's optimizer has state for '" + by_parameter.begin()->first + "', which is not trained",
              "resume with the recipe that wrote the snapshot, or start anew with --resume none");
}

}  // namespace lockstep
