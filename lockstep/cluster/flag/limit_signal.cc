// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/flag/limit_signal.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

/// The signals that a program can catch and that reach it: `lockstep exec` passes them on if Slurm signals only the
/// task.
constexpr std::array<std::string_view, 5> kHandedOn = {"USR1", "USR2", "TERM", "INT", "HUP"};
constexpr int kLongest = 65535;  // sbatch(1), --signal.

[[noreturn]] void refuse(const std::string& text, const std::string& wanted) {
  throw Error(ErrorKind::kUsage, "--signal is '" + text + "', want " + wanted,
              "NAME@S: the signal that the program handles, and how many seconds before the end it comes: "
              "--signal USR1@120");
}

}  // namespace

LimitSignal limit_signal(const std::string& text) {
  const auto at = text.find('@');
  if (at == std::string::npos) refuse(text, "a signal and seconds, NAME@S");
  std::string name = text.substr(0, at);
  if (name.starts_with("SIG")) name.erase(0, 3);
  if (std::ranges::find(kHandedOn, name) == kHandedOn.end()) refuse(text, "USR1, USR2, TERM, INT or HUP before the @");
  const auto seconds = parsed_int<int>(text.substr(at + 1));
  if (!seconds || *seconds < 1 || *seconds > kLongest) {
    refuse(text, "1 to " + std::to_string(kLongest) + " whole seconds after the @");
  }
  return {.name = std::move(name), .before = std::chrono::seconds(*seconds)};
}

bool may_requeue(const std::string& word) {
  if (word.empty() || word == "yes") return true;
  if (word == "no") return false;
  throw Error(ErrorKind::kUsage, "--requeue is '" + word + "', want yes or no",
              "--requeue no for a job that is never to start again by itself");
}

}  // namespace lockstep
