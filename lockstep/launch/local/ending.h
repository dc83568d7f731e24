// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The end of a local rank.
struct Ending {
  int rank = 0;
  int code = 0;    ///< As a shell reports it, 128 + n for signal n.
  int signal = 0;  ///< 0 if it exited.

  std::optional<int> told_by{};  ///< The rank whose error this rank threw, as its page says.

  /// True if the rank ended because of another one: it lost a peer, or was told of that rank's error, such as a full
  /// disk of rank 0's.
  bool is_of_another() const;
  /// "ended by signal 9 (Killed)", "ended with code 3"
  std::string text() const;
  /// "rank 2 of 4 ended with code 3"
  std::string of(int ranks) const;
};

/// Returns the message about ranks, given by their numbers, that were killed `grace` after a stop signal.
std::string overdue_text(const std::vector<std::string>& ranks, int world, std::chrono::milliseconds grace, int signal);

/// Returns a rank's last lines, to follow a message about its end. Empty if there are none.
std::string last_words(const std::deque<std::string>& lines);

}  // namespace lockstep
