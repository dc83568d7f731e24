// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace lockstep {

/// The signal that a program gets before its job's time is up.
struct LimitSignal {
  std::string name;                ///< Without SIG, such as "USR1".
  std::chrono::seconds before{0};  ///< The limit. Slurm may be up to a minute early.
};

/// Parses the value of --signal, such as "USR1@120". The name may have SIG before it.
///
/// Throws: Error(kUsage) for another form, a signal that does not reach a program through `lockstep exec`, and a time
///         that Slurm does not take.
LimitSignal limit_signal(const std::string& text);

/// Parses the value of --requeue, "yes" or "no". Empty is yes.
///
/// Throws: Error(kUsage) for another word.
bool may_requeue(const std::string& word);

}  // namespace lockstep
