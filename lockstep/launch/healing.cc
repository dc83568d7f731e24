// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/healing.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {

std::string how_it_ended(int code, int signal) {
  if (signal == 0) return "ended with code " + std::to_string(code);
  return "ended by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

bool Healing::is_curable(int code) {
  const int never[] = {0,
                       kExitStopped,
                       exit_code(ErrorKind::kUsage),
                       exit_code(ErrorKind::kRecipe),
                       exit_code(ErrorKind::kData),
                       exit_code(ErrorKind::kPeer)};
  return std::ranges::find(never, code) == std::end(never);
}

std::optional<std::string> Healing::refusal(int rank, Clock::time_point now) {
  if (count_ >= limits_.most) {
    return counted(count_, "rank") + " were started again in this run, want at most " + std::to_string(limits_.most) +
           " (trainer.heal_limit)";
  }
  std::erase_if(deaths_, [&](const Death& each) { return now - each.at > limits_.window; });
  if (std::ranges::find(deaths_, rank, &Death::rank) != deaths_.end()) {
    return "it died twice within " + fixed(std::chrono::duration<double>(limits_.window).count(), 0) +
           " s (trainer.heal_window)";
  }
  if (limits_.window.count() > 0) deaths_.push_back({.rank = rank, .at = now});
  ++count_;
  return std::nullopt;
}

}  // namespace lockstep
