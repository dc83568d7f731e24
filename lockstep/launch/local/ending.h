// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>

namespace lockstep {

/// The end of a local rank.
struct Ending {
  int rank = 0;
  int code = 0;    ///< As a shell reports it, 128 + n for signal n.
  int signal = 0;  ///< 0 if it exited.

  /// True if the rank only noticed that a peer was lost.
  bool only_lost_peer() const;
  /// "ended by signal 9 (Killed)", "ended with code 3"
  std::string text() const;
  /// "rank 2 of 4 ended with code 3"
  std::string of(int ranks) const;
};

/// Returns a rank's last lines, to follow a message about its end. Empty if there are none.
std::string last_words(const std::deque<std::string>& lines);

}  // namespace lockstep
