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

/// The training half's part of a command.
struct Training {
  std::vector<std::string> arguments;
  int ranks = 1;
  std::filesystem::path logs{};            ///< Output goes there too. Empty for none.
  std::optional<HealingLimits> healing{};  ///< Ranks that die are started again.
};

/// Hands over to the training half. With one rank this process becomes `lockstep-train ARGUMENTS`. With more it
/// supervises them.
///
/// Returns the exit code. Throws: Error(kEnvironment) if the training half is not installed.
int hand_over(const Training& training, const Context& context);

/// Does the same, but stays the parent of the training for any number of ranks, and holds its newest state in memory.
/// If a rank dies, it writes the state as a snapshot. `is_task` is true if another launcher started this one rank.
int hand_over_and_hold(const Training& training, bool is_task, const Context& context);

}  // namespace lockstep::cli
