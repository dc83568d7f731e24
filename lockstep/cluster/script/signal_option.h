// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A script's `--signal`, in the form of `lockstep submit --signal`.
struct SignalRequest {
  std::string value{};     ///< "USR1@60". Empty if ours has no such line.
  std::string left_out{};  ///< Why not.
};

/// Parses `[B:][R:]NAME|NUMBER[@SECONDS]`. Without seconds, Slurm takes 60. With `B:` only the batch shell gets the
/// signal. Lockstep's script then sends the ranks the signal that a line of `script` sends them by `kill` or `scancel`.
///
/// Source: sbatch(1), --signal.
SignalRequest signal_request(std::string_view option, const std::vector<std::string>& script);

}  // namespace lockstep
