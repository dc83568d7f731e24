// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A program that starts ranks of its own, as a job's command names it.
struct NestedLauncher {
  std::string name;                   ///< "torchrun"
  std::vector<std::string> launched;  ///< What it would start: "python", "train.py", "--epochs", "3".
};

/// The launcher that `command` is: torchrun, `python -m torch.distributed.run`, accelerate, deepspeed, mpirun and the
/// like.
std::optional<NestedLauncher> nested_launcher(const std::vector<std::string>& command);

}  // namespace lockstep
