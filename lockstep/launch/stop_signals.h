// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// While it lives, SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 ask for a stop instead of ending the process: the handler only
/// sets a flag, which the training reads between steps. A second SIGINT ends the process as it would have. One at a
/// time in a process.
///
/// Afterwards the handlers that were there stand again. But a process whose early signals were held, as `lockstep
/// train` holds them, ignores SIGTERM, SIGUSR1 and SIGUSR2 from then on: all ranks stop for one rank's signal, and its
/// own may reach another rank later, on the way out.
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

 private:
  bool were_held_;
};

}  // namespace lockstep
