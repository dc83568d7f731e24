// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/ending.h"

#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/healing.h"

namespace lockstep {

bool Ending::is_of_another() const { return told_by || code == exit_code(ErrorKind::kPeer); }

std::string Ending::text() const { return how_it_ended(code, signal); }

std::string Ending::of(int ranks) const {
  return "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " " + text();
}

std::string overdue_text(const std::vector<std::string>& ranks, int world, std::chrono::milliseconds grace,
                         int signal) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + joined(ranks, ", ") + " of " + std::to_string(world) +
         " did not end within " + fixed(std::chrono::duration<double>(grace).count(), 0) + " s after signal " +
         std::to_string(signal) + " (" + ::strsignal(signal) +
         ") and were killed; LOCKSTEP_STOP_GRACE changes how many seconds they have";
}

std::string last_words(const std::deque<std::string>& lines) {
  std::string text = lines.empty() ? "" : "; its last lines:";
  for (const auto& line : lines) text += "\n  | " + line;
  return text;
}

}  // namespace lockstep
