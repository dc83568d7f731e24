// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A program in a job's command that starts ranks itself.
struct NestedLauncher {
  std::string name;                   ///< "torchrun"
  std::vector<std::string> launched;  ///< The command that it would start, such as "python", "train.py", "--epochs",
                                      ///< "3".
};

/// Returns the launcher that `command` is, such as torchrun, `python -m torch.distributed.run`, accelerate, deepspeed
/// or mpirun.
std::optional<NestedLauncher> nested_launcher(const std::vector<std::string>& command);

}  // namespace lockstep
