// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// While an object of this class lives, SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 ask for a stop instead of ending the
/// process. The handler only sets a flag, which the training reads between steps. A second SIGINT ends the process as
/// usual. A process may have one such object at a time.
///
/// The destructor restores the handlers from before. But a process that blocked early signals, as `lockstep train`
/// does, ignores SIGTERM, SIGUSR1 and SIGUSR2 from then on. All ranks stop when one of them gets a signal. Another rank
/// may get its signal later, while it is ending.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// True if one of these signals has come.
  static bool arrived();
  /// Returns the name of the signal, such as "SIGTERM". Empty if no signal has come.
  static std::string name();

 private:
  bool were_held_;
};

}  // namespace lockstep
