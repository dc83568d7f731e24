// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/ending.h"

#include "lockstep/base/error.h"
#include "lockstep/launch/healing.h"

namespace lockstep {

bool Ending::only_lost_peer() const { return code == exit_code(ErrorKind::kPeer); }

std::string Ending::text() const { return how_it_ended(code, signal); }

std::string Ending::of(int ranks) const {
  return "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " " + text();
}

std::string last_words(const std::deque<std::string>& lines) {
  std::string text = lines.empty() ? "" : "; its last lines:";
  for (const auto& line : lines) text += "\n  | " + line;
  return text;
}

}  // namespace lockstep
