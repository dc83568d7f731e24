// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Settings of an optimizer that apply to some parameters, chosen by name. An example is no weight decay for biases.
///
///     const auto groups = lockstep::parsed_groups({"*.bias weight_decay=0", "fc.* lr=0.01"});
///     auto adamw = lockstep::make_optimizer(*net, {.name = "adamw", .weight_decay = 0.01}, groups);

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/optim/optimizer.h"

namespace lockstep {

/// Settings for the parameters whose names fit a pattern. An absent setting is that of the optimizer.
struct ParameterGroup {
  std::string pattern;  ///< `*` stands for any characters, dots included.
  std::optional<double> lr{};
  std::optional<double> weight_decay{};
};

/// Parses a recipe's list, such as "*.bias weight_decay=0", "fc.* lr=0.01 weight_decay=0.1".
///
/// Throws: Error(kRecipe) naming the entry and the form wanted.
std::vector<ParameterGroup> parsed_groups(const std::vector<std::string>& entries);

/// Makes an optimizer of the module's parameters that require gradients. Each entry makes one group. All other
/// parameters make one more group, the last. A parameter belongs to the first entry whose pattern matches its name. A
/// group without parameters is left out. Tied weights count once, by their first name.
///
/// Throws: as make_optimizer(); Error(kRecipe) for a pattern that matches no parameter, with a similar name.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const torch::nn::Module& module,
                                                        const OptimizerSettings& settings,
                                                        const std::vector<ParameterGroup>& groups);

}  // namespace lockstep
