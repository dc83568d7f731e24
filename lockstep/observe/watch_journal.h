// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/log.h"
#include "lockstep/watch/verdict.h"

namespace lockstep {

/// Writes a message about a new verdict, or about its end, to `log` and to the run folder's watch.jsonl
/// (docs/formats/run-folder.md). If there is no run folder, it is written to the log only. A line that cannot be
/// written is left out.
void tell_news(const std::string& news, const std::optional<WatchVerdict>& verdict,
               const std::filesystem::path& run_dir, const Log& log);

}  // namespace lockstep
