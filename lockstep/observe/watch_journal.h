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

/// Something to say of ranks.
struct WatchNews {
  std::string kind{};  ///< A verdict's name, "goes_on" or "ended".
  std::vector<int> ranks{};
  std::string text{};
  nlohmann::json views{};  ///< What was seen of these ranks from outside, under their numbers, or null.
};

/// Returns the news that VerdictNews::of() gave as `text`.
WatchNews news_of(const std::string& text, const std::optional<WatchVerdict>& verdict);

/// Says `news` on `log` and in the run folder's watch.jsonl (docs/formats/run-folder.md). Without a run folder only the
/// log hears. A line that cannot be written is left out.
void tell_news(const WatchNews& news, const std::filesystem::path& run_dir, const Log& log);

/// Does only the latter.
void write_news(const WatchNews& news, const std::filesystem::path& run_dir, const Log& log);

}  // namespace lockstep
