// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// One trial of a sweep, with a value for each setting that is varied.
struct Trial {
  std::vector<std::string> sets;  ///< "optimizer.lr=0.1", as after --set.
  std::string name;               ///< The name of its folder, such as "01-lr-0.1".
};

/// Returns every combination of the values in flags such as "a.b=v,w". The first setting changes slowest. Commas in
/// brackets or quotes belong to a value. `flag` is the flag's name, for messages.
///
/// Throws: Error(kUsage) for a flag without values, for a setting that is varied twice, and for more than 1000 trials.
std::vector<Trial> trials_of(const std::vector<std::string>& sweeps, const std::string& flag = "--sweep");

/// Returns a program's command with the trial's value wherever "{NAME}" stands in a word. Braces around another name
/// stay as they are, and a value is never searched for names. A value in quotes loses them.
///
/// Throws: Error(kUsage) for a name that is swept but does not occur in the command.
std::vector<std::string> command_of_trial(const std::vector<std::string>& command, const Trial& trial);

}  // namespace lockstep
