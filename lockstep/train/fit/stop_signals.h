// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// While it lives, SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 ask for a stop instead of ending the process: the handler only
/// sets a flag, which the training reads between steps. A second SIGINT ends the process as it would have. One at a
/// time in a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// A claim: one has come.
  static bool arrived();
  /// "SIGTERM", or empty where none has come.
  static std::string name();
};

}  // namespace lockstep
