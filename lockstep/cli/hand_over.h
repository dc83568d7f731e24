// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/cli/commands.h"
#include "lockstep/cluster/setup/trainer_program.h"

namespace lockstep::cli {

/// Replaces this process by `lockstep-data ARGUMENTS`, which lies beside this program.
///
/// Throws: Error(kEnvironment) if it is not there; otherwise it does not return.
[[noreturn]] void hand_over_data(const std::vector<std::string>& arguments, const Environment& env);

/// Returns the program of this process, for trainer_program() and plan_submission().
LockstepProgram running_lockstep();

/// Hands over to the training half. With one rank this process becomes `lockstep-train ARGUMENTS`. With more it
/// supervises them, and their output goes to `logs` too, unless that is empty.
///
/// Returns the exit code. Throws: Error(kEnvironment) if the training half is not installed.
int hand_over(const std::vector<std::string>& arguments, int ranks, const std::filesystem::path& logs,
              const Context& context);

/// Does the same, but stays the parent of the training for any number of ranks, and holds its newest state in memory.
/// If a rank dies, it writes the state as a snapshot. `is_task` is true if another launcher started this one rank.
int hand_over_and_hold(const std::vector<std::string>& arguments, int ranks, const std::filesystem::path& logs,
                       bool is_task, const Context& context);

}  // namespace lockstep::cli
