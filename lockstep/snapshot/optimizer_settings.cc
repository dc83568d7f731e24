// SPDX-License-Identifier: Apache-2.0
#include "lockstep/snapshot/optimizer_settings.h"

#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

Json settings_of(const torch::optim::SGDOptions& options) {
  return {{"lr", options.lr()},
          {"momentum", options.momentum()},
          {"dampening", options.dampening()},
          {"weight_decay", options.weight_decay()},
          {"nesterov", options.nesterov()}};
}

// AdamOptions and AdamWOptions have the same members, but no common base class with these members. So this is a
// template.
template <typename Options>
Json adam_settings_of(const Options& options) {
  const auto [beta1, beta2] = options.betas();
  return {{"lr", options.lr()},
          {"betas", {beta1, beta2}},
          {"eps", options.eps()},
          {"weight_decay", options.weight_decay()},
          {"amsgrad", options.amsgrad()}};
}

struct Described {
  std::string name;
  Json settings;
};

Described described(const torch::optim::OptimizerOptions& options) {
  if (const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&options)) return {"sgd", settings_of(*sgd)};
  if (const auto* adam = dynamic_cast<const torch::optim::AdamOptions*>(&options)) {
    return {"adam", adam_settings_of(*adam)};
  }
  if (const auto* adamw = dynamic_cast<const torch::optim::AdamWOptions*>(&options)) {
    return {"adamw", adam_settings_of(*adamw)};
  }
  throw Error(ErrorKind::kUsage, "the optimizer is of a kind that snapshots do not know",
              "use SGD, Adam or AdamW, or train without snapshots");
}

}  // namespace

std::string optimizer_settings(const torch::optim::Optimizer& optimizer,
                               const std::map<const void*, std::string>& names) {
  std::string name;
  Json groups = Json::array();
  for (const auto& group : optimizer.param_groups()) {
    auto [kind, settings] = described(group.options());
    Json parameters = Json::array();
    for (const auto& parameter : group.params()) {
      const auto found = names.find(parameter.unsafeGetTensorImpl());
      if (found == names.end()) {
        throw Error(ErrorKind::kUsage,
                    "the optimizer moves a parameter that is not the module's, so a snapshot would lack it",
                    "register it with register_parameter()");
      }
      parameters.push_back(found->second);
    }
    groups.push_back({{"settings", std::move(settings)}, {"params", std::move(parameters)}});
    name = kind;
  }
  return Json({{"name", name}, {"groups", std::move(groups)}}).dump();
}

}  // namespace lockstep
