// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// While it lives, SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 ask for a stop instead of ending the process. The handler only
/// sets a flag, which the training reads between steps. A second SIGINT ends the process as usual. There may be one at
/// a time in a process.
///
/// The destructor restores the handlers from before. But a process whose early signals were blocked, as in `lockstep
/// train`, ignores SIGTERM, SIGUSR1 and SIGUSR2 from then on. All ranks stop for one rank's signal, and another rank's
/// own signal may come later, on the way out.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// True if one has come.
  static bool arrived();
  /// Returns its name, such as "SIGTERM". Empty if none has come.
  static std::string name();

 private:
  bool were_held_;
};

}  // namespace lockstep
