// SPDX-License-Identifier: Apache-2.0
#include "lockstep/snapshot/optimizer_state.h"

#include <torch/torch.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

using torch::optim::OptimizerParamState;

// Returns one parameter's state as tensors by PyTorch's names. Undefined tensors are left out.
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
  state->step(parts.at("step").template item<std::int64_t>());
  state->exp_avg(parts.at("exp_avg"));
  state->exp_avg_sq(parts.at("exp_avg_sq"));
  if (const auto it = parts.find("max_exp_avg_sq"); it != parts.end()) state->max_exp_avg_sq(it->second);
  return state;
}

bool is_known_part(const std::string& part) {
  return part == "step" || part == "momentum_buffer" || part == "exp_avg" || part == "exp_avg_sq" ||
         part == "max_exp_avg_sq";
}

// State that another kind of optimizer wrote is an error. Without this check the optimizer would silently start from
// zero.
void require_parts(const std::string& name, Parts parts, const std::vector<std::string>& wanted,
                   const std::string& optional = {}) {
  std::vector<std::string> found;
  for (const auto& [part, tensor] : parts) found.push_back(part);
  parts.erase(optional);
  const bool has_all =
      std::all_of(wanted.begin(), wanted.end(), [&](const auto& part) { return parts.contains(part); });
  if (has_all && parts.size() == wanted.size()) return;
  throw Error(ErrorKind::kData,
              "the snapshot's optimizer has " + joined(found, ", ") + " for '" + name + "', this optimizer wants " +
                  joined(wanted, ", "),
              "resume with the recipe that wrote the snapshot, or start from scratch with --resume none");
}

std::unique_ptr<OptimizerParamState> state_from(const torch::optim::OptimizerOptions& options, const std::string& name,
                                                const Parts& parts) {
  if (dynamic_cast<const torch::optim::SGDOptions*>(&options) != nullptr) {
    require_parts(name, parts, {"momentum_buffer"});
    auto state = std::make_unique<torch::optim::SGDParamState>();
    state->momentum_buffer(parts.at("momentum_buffer"));
    return state;
  }
  const bool is_adam = dynamic_cast<const torch::optim::AdamOptions*>(&options) != nullptr;
  require_parts(name, parts, {"step", "exp_avg", "exp_avg_sq"}, "max_exp_avg_sq");
  if (is_adam) return adam_state<torch::optim::AdamParamState>(parts);
  return adam_state<torch::optim::AdamWParamState>(parts);
}

const std::string& name_of(const at::Tensor& parameter, const std::map<const void*, std::string>& names) {
  const auto it = names.find(parameter.unsafeGetTensorImpl());
  if (it != names.end()) return it->second;
  throw Error(ErrorKind::kUsage,
              "the optimizer moves a parameter that is not the module's, so a snapshot would lack it",
              "register it with register_parameter()");
}

}  // namespace

std::map<const void*, std::string> parameter_names(const torch::nn::Module& module) {
  std::map<const void*, std::string> names;
  for (const auto& item : module.named_parameters()) names.emplace(item.value().unsafeGetTensorImpl(), item.key());
  return names;
}

void require_known_kind(const torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    const auto& options = group.options();
    if (dynamic_cast<const torch::optim::SGDOptions*>(&options) == nullptr &&
        dynamic_cast<const torch::optim::AdamOptions*>(&options) == nullptr &&
        dynamic_cast<const torch::optim::AdamWOptions*>(&options) == nullptr) {
      throw Error(ErrorKind::kUsage, "the optimizer is of a kind that snapshots do not know",
                  "use SGD, Adam or AdamW, or train without snapshots");
    }
  }
}

std::vector<SavedTensor> optimizer_tensors(torch::optim::Optimizer& optimizer,
                                           const std::map<const void*, std::string>& names, OptimizerPlace place) {
  std::vector<SavedTensor> out;
  for (auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const auto it = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (it == optimizer.state().end()) continue;
      const std::string& name = name_of(parameter, names);
      for (const auto& [part, tensor] : parts_of(*it->second)) {
        if (!tensor.defined()) continue;
        out.push_back({optimizer_tensor_name({place.index, name, part}, place.count), tensor});
      }
    }
  }
  return out;
}

void restore_optimizer(torch::optim::Optimizer& optimizer, const std::map<const void*, std::string>& names,
                       const std::map<std::string, at::Tensor>& tensors, OptimizerPlace place) {
  require_known_kind(optimizer);
  std::map<std::string, Parts> by_parameter;
  for (const auto& [full, tensor] : tensors) {
    const auto parsed = parsed_optimizer_tensor(full, place.count);
    if (!parsed || !is_known_part(parsed->part)) {
      throw Error(ErrorKind::kData,
                  "the snapshot's optimizer holds '" + full + "', which is not part of an optimizer's state",
                  "it was written by another program, or is damaged; resume from an earlier one");
    }
    if (parsed->optimizer == place.index) by_parameter[parsed->parameter][parsed->part] = tensor;
  }
  for (auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const std::string& name = name_of(parameter, names);
      const auto node = by_parameter.extract(name);
      if (node.empty()) continue;
      Parts parts;
      for (const auto& [part, tensor] : node.mapped()) {
        if (part != "step" && tensor.sizes() != parameter.sizes()) {
          throw Error(ErrorKind::kData,
                      "the snapshot's '" + name + "." + part + "' does not have its parameter's shape",
                      "resume with the recipe that wrote the snapshot, or start from scratch with --resume none");
        }
        // The state gets the parameter's memory layout, since fused updates need the same layout for parameter and
        // state.
        const auto options = tensor.options().device(parameter.device());
        parts[part] = part == "step" ? tensor : at::empty_like(parameter, options).copy_(tensor);
      }
      optimizer.state()[parameter.unsafeGetTensorImpl()] = state_from(group.options(), name, parts);
    }
  }
  if (by_parameter.empty()) return;
  throw Error(ErrorKind::kData,
              "the snapshot's optimizer has state for '" + by_parameter.begin()->first + "', which is not trained",
              "resume with the recipe that wrote the snapshot, or start from scratch with --resume none");
}

}  // namespace lockstep
