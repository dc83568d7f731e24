// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/recipe/recipe.h"

namespace lockstep::cli {

/// Generated samples that stand in for a data set that is not on this machine, so that a plan needs no data.
struct PlanData {
  std::vector<std::string> sets;  ///< The plan's `--set`s, with the generated samples in place of the data set.
  std::string note;               ///< A line for the log, with number and shape of the samples.
};

/// Returns a substitute for the recipe's data set, or nothing if the data set itself is read.
///
/// There is a substitute if `samples` ("50000" or "50000,10000", from --samples) is given. There is also one if the
/// data set is not on this machine but its size is known. That is so for cifar10, cifar100, and the recipe named mnist.
///
/// Throws: Error(kUsage) if `samples` is malformed, or if the data set is not on this machine and its size or the shape
///         of a sample is unknown.
std::optional<PlanData> plan_data(const Recipe& recipe, const std::vector<std::string>& sets,
                                  const std::string& samples);

}  // namespace lockstep::cli
