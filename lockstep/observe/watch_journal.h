// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/log.h"
#include "lockstep/watch/verdict.h"

namespace lockstep {

/// A message about ranks.
struct WatchNews {
  std::string kind{};  ///< A verdict's name, "goes_on" or "ended".
  std::vector<int> ranks{};
  std::string text{};
  nlohmann::json views{};  ///< Views of these ranks from outside, by rank, or null.
};

/// Returns the message for a verdict. VerdictNews::of() has made its `text`.
WatchNews news_of(const std::string& text, const std::optional<WatchVerdict>& verdict);

/// Writes a message to `log` and to the run folder's watch.jsonl (docs/formats/run-folder.md). If there is no run
/// folder, it is written to the log only. A line that cannot be written is left out.
void tell_news(const WatchNews& news, const std::filesystem::path& run_dir, const Log& log);

/// Writes a message to watch.jsonl only.
void write_news(const WatchNews& news, const std::filesystem::path& run_dir, const Log& log);

}  // namespace lockstep
