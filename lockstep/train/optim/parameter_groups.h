// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/optim/optimizer.h"

namespace lockstep {

/// Settings for the parameters whose names fit a pattern; what is absent is the optimizer's own.
struct ParameterGroup {
  std::string pattern;  ///< `*` stands for any letters, dots included.
  std::optional<double> lr{};
  std::optional<double> weight_decay{};
};

/// Reads a recipe's list: "*.bias weight_decay=0", "fc.* lr=0.01 weight_decay=0.1".
///
/// Throws: Error(kRecipe) naming the entry and what it wants.
std::vector<ParameterGroup> parsed_groups(const std::vector<std::string>& entries);

/// An optimizer of the module's parameters that require gradients: one group for each entry, by the first that fits,
/// then one for all others; a group without parameters is left out. Tied weights count once, by their first name.
///
/// Throws: as make_optimizer(); Error(kRecipe) for a pattern that fits no parameter: a name nearby is shown.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const torch::nn::Module& module,
                                                        const OptimizerSettings& settings,
                                                        const std::vector<ParameterGroup>& groups);

}  // namespace lockstep
