// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// A script's `--signal`, as `lockstep submit --signal` takes it.
struct SignalRequest {
  std::string value{};     ///< "USR1@60"; empty if ours has no such line.
  std::string left_out{};  ///< Why not.
};

/// Reads `[B:][R:]NAME|NUMBER[@SECONDS]`; without seconds Slurm takes 60. With `B:` the batch shell alone gets the
/// signal: what it hands on to the ranks, by `kill` or `scancel` in a line of `script`, is what ours sends them.
///
/// Source: sbatch(1), --signal.
SignalRequest signal_request(std::string_view option, const std::vector<std::string>& script);

}  // namespace lockstep
