// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/commands.h"
#include "lockstep/cluster/setup/trainer_program.h"
#include "lockstep/launch/local/launcher.h"

namespace lockstep::cli {

/// Replaces this process by `lockstep-data ARGUMENTS`, which lies beside this program.
///
/// Throws: Error(kEnvironment) if that program is missing. Otherwise the function does not return.
[[noreturn]] void hand_over_data(const std::vector<std::string>& arguments, const Environment& env);

/// Returns the path of the program of this process, for trainer_program() and plan_submission().
LockstepProgram running_lockstep();

/// A training to start as `lockstep-train`.
struct Training {
  std::vector<std::string> arguments;
  int ranks = 1;
  std::filesystem::path logs{};            ///< A folder for each rank's output. Empty for none.
  std::optional<HealingLimits> healing{};  ///< Set if ranks that die are started again.
};

/// Starts the trainer. If there is one rank, this process becomes `lockstep-train ARGUMENTS`. If there are more, this
/// process supervises them.
///
/// Returns the exit code. Throws: Error(kEnvironment) if `lockstep-train` is not installed.
int hand_over(const Training& training, const Context& context);

/// Starts the trainer, and stays its parent for any number of ranks. It holds the newest state of the training in
/// memory. If a rank dies, it writes this state as a snapshot. `is_task` is true if another launcher started this rank.
int hand_over_and_hold(const Training& training, bool is_task, const Context& context);

}  // namespace lockstep::cli
