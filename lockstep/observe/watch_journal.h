// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/log.h"
#include "lockstep/watch/verdict.h"

namespace lockstep {

/// Says `news` of a verdict, or of its end, on `log` and in the run folder's watch.jsonl (docs/formats/run-folder.md).
/// Without a run folder only the log hears. A line that cannot be written is left out.
void tell_news(const std::string& news, const std::optional<WatchVerdict>& verdict,
               const std::filesystem::path& run_dir, const Log& log);

}  // namespace lockstep
