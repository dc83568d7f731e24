// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "lockstep/base/log.h"

namespace lockstep::cli {

/// Returns the snapshot that `path` names. For a run or its `snapshots` folder, that is the newest intact snapshot. It
/// prints a warning for each newer one that is damaged. Returns nothing if `path` is neither a run, nor such a folder,
/// nor a snapshot.
///
/// Throws: Error(kData) if no snapshot of the folder is intact, or if the named snapshot is not.
std::optional<std::filesystem::path> whole_snapshot(const std::filesystem::path& path, const Log& log);

}  // namespace lockstep::cli
