// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/optim/parameter_groups.h"

#include <torch/torch.h>

#include <algorithm>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/base/pattern.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse_entry(const std::string& entry) {
  throw Error(ErrorKind::kRecipe,
              "optimizer.groups: '" + entry + "' is not a pattern followed by lr=… or weight_decay=…",
              "write it as \"*.bias weight_decay=0\"");
}

[[noreturn]] void refuse_pattern(const std::string& key, const std::string& pattern, const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_parameters()) names.push_back(item.key());
  const auto near = nearest_name(pattern, names);
  throw Error(ErrorKind::kRecipe, key + ": '" + pattern + "' matches no parameter of the model",
              near ? "did you mean '" + *near + "'?" : "the model has " + joined(names, ", "));
}

// Returns the optimizer's options, changed by the settings of the group.
template <typename Options>
std::unique_ptr<torch::optim::OptimizerOptions> options_with(const torch::optim::OptimizerOptions& base,
                                                             const ParameterGroup& group) {
  auto options = std::make_unique<Options>(static_cast<const Options&>(base));
  if (group.lr) options->lr(*group.lr);
  if (group.weight_decay) options->weight_decay(*group.weight_decay);
  return options;
}

std::unique_ptr<torch::optim::OptimizerOptions> options_of(const torch::optim::OptimizerOptions& base,
                                                           const ParameterGroup& group) {
  if (dynamic_cast<const torch::optim::SGDOptions*>(&base) != nullptr) {
    return options_with<torch::optim::SGDOptions>(base, group);
  }
  if (dynamic_cast<const torch::optim::AdamOptions*>(&base) != nullptr) {
    return options_with<torch::optim::AdamOptions>(base, group);
  }
  return options_with<torch::optim::AdamWOptions>(base, group);
}

}  // namespace

std::vector<ParameterGroup> parsed_groups(const std::vector<std::string>& entries) {
  std::vector<ParameterGroup> groups;
  for (const auto& entry : entries) {
    ParameterGroup group;
    for (const auto& word : split(entry, ' ')) {
      if (word.empty()) continue;
      const auto equals = word.find('=');
      if (group.pattern.empty() && equals == std::string::npos) {
        group.pattern = word;
        continue;
      }
      const auto value = equals == std::string::npos ? std::nullopt : parsed_double(word.substr(equals + 1));
      if (!value || *value < 0) refuse_entry(entry);
      const auto key = word.substr(0, equals);
      if (key != "lr" && key != "weight_decay") refuse_entry(entry);
      (key == "lr" ? group.lr : group.weight_decay) = *value;
    }
    if (group.pattern.empty() || (!group.lr && !group.weight_decay)) refuse_entry(entry);
    groups.push_back(std::move(group));
  }
  return groups;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const torch::nn::Module& module,
                                                        const OptimizerSettings& settings,
                                                        const std::vector<ParameterGroup>& groups) {
  std::vector<std::vector<at::Tensor>> members(groups.size());
  std::vector<bool> fits(groups.size(), false);
  std::vector<at::Tensor> others;
  std::unordered_set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    const auto it = std::find_if(groups.begin(), groups.end(),
                                 [&](const auto& each) { return fits_pattern(item.key(), each.pattern); });
    const auto place = static_cast<std::size_t>(it - groups.begin());
    if (it != groups.end()) fits[place] = true;
    if (!item.value().requires_grad() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    (it == groups.end() ? others : members[place]).push_back(item.value());
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!fits[i]) refuse_pattern("optimizer.groups", groups[i].pattern, module);
  }
  auto optimizer = make_optimizer(others, settings);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (members[i].empty()) continue;
    optimizer->add_param_group({members[i], options_of(optimizer->defaults(), groups[i])});
  }
  auto& made = optimizer->param_groups();
  if (others.empty() && made.size() > 1) made.erase(made.begin());
  return optimizer;
}

}  // namespace lockstep
