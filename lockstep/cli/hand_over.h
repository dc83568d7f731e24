// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/cli/commands.h"
#include "lockstep/cluster/setup/trainer_program.h"

namespace lockstep::cli {

/// `lockstep-data`, which lies beside this program, takes over: this process becomes `lockstep-data ARGUMENTS`.
///
/// Throws: Error(kEnvironment) where it is not there; otherwise it does not return.
[[noreturn]] void hand_over_data(const std::vector<std::string>& arguments, const Environment& env);

/// Returns the program of this process, for trainer_program() and plan_submission().
LockstepProgram running_lockstep();

/// The training half takes over: this process becomes `lockstep-train ARGUMENTS`, or, where `ranks` is above 1,
/// supervises as many of them, whose output goes to `logs` too unless that is empty.
///
/// Returns the exit code. Throws: Error(kEnvironment) where the training half is not there.
int hand_over(const std::vector<std::string>& arguments, int ranks, const std::filesystem::path& logs,
              const Context& context);

/// Does the same, but stays the parent of the training, however many ranks it has here, and holds its newest state in
/// memory. If a rank dies, the state is written as a snapshot. `is_task`: another launcher has placed this one rank.
int hand_over_and_hold(const std::vector<std::string>& arguments, int ranks, const std::filesystem::path& logs,
                       bool is_task, const Context& context);

}  // namespace lockstep::cli
