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

/// Makes objects that need a process hosted by a Python.
class PythonHost {
 public:
  virtual ~PythonHost() = default;

  /// Builds the class of `model.name`, with [model.args] as its arguments. Its weights are drawn from LibTorch's
  /// default generator, so seed that first.
  ///
  /// Throws: Error(kRecipe) for a class, file or argument that is not there, and for a network that does not fit the
  /// data.
  virtual std::shared_ptr<Network> network(const Recipe& recipe, const NetworkOptions& options) = 0;

  /// Returns the function of `loss.name`. It throws ModelException with the traceback where Python does.
  ///
  /// Throws: Error(kRecipe) if it is not there.
  virtual std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)> loss(const Recipe& recipe) = 0;

  /// Returns the function that `key` of [metrics] names, likewise. Shape: returns [] or [N].
  virtual std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)> metric(
      const Recipe& recipe, const std::string& key) = 0;

  /// Returns the path of the Python that runs.
  virtual std::string executable() const = 0;
};

/// The process that trains.
struct TrainerProcess {
  const Environment& env;
  std::vector<std::string> arguments{};  ///< Behind the program's name.
  PythonHost* python = nullptr;          ///< Null if no Python hosts this process.
};

}  // namespace lockstep
