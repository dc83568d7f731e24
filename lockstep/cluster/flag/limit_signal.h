// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace lockstep {

/// What a program is told before its job's time is up.
struct LimitSignal {
  std::string name;                ///< Without SIG: "USR1".
  std::chrono::seconds before{0};  ///< The limit; Slurm may be up to a minute early.
};

/// Reads "USR1@120", or with SIG before the name: --signal's value.
///
/// Throws: Error(kUsage) for another form, a signal that does not reach a program through `lockstep exec`, and a time
///         that Slurm does not take.
LimitSignal limit_signal(const std::string& text);

/// Reads "yes" or "no": --requeue's value. Empty is yes.
///
/// Throws: Error(kUsage) for another word.
bool may_requeue(const std::string& word);

}  // namespace lockstep
