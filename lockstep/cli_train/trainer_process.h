// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/models/network.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// The interface to Python, for a trainer that runs inside a Python process. It makes networks and losses that are
/// written in Python.
class PythonHost {
 public:
  virtual ~PythonHost() = default;

  /// Builds the class of `model.name`, with [model.args] as its arguments. Its weights are drawn from LibTorch's
  /// default generator, so seed that first.
  ///
  /// Throws: Error(kRecipe) if the class, the file or an argument does not exist, or if the network does not fit the
  ///         data.
  virtual std::shared_ptr<Network> network(const Recipe& recipe, const NetworkOptions& options) = 0;

  /// Returns the function that `loss.name` names. If the function raises an exception in Python, it throws
  /// ModelException with the traceback.
  ///
  /// Throws: Error(kRecipe) if the function does not exist.
  virtual std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)> loss(const Recipe& recipe) = 0;

  /// Returns the function that `key` of [metrics] names, likewise. Shape: returns [] or [N].
  virtual std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)> metric(
      const Recipe& recipe, const std::string& key) = 0;

  /// Returns the path of the Python interpreter that runs.
  virtual std::string executable() const = 0;
};

/// The process that trains.
struct TrainerProcess {
  const Environment& env;
  std::vector<std::string> arguments{};  ///< Behind the program's name.
  PythonHost* python = nullptr;          ///< Null if no Python hosts this process.
};

}  // namespace lockstep
