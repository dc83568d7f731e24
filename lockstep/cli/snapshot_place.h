// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "lockstep/base/log.h"

namespace lockstep::cli {

/// Returns the snapshot that `path` means. For a run or its snapshots folder, it is the newest intact one, with a
/// warning for each newer one that is damaged. Nothing if `path` is neither of these nor a snapshot.
///
/// Throws: Error(kData) if there are snapshots and none is whole, or the one named is not.
std::optional<std::filesystem::path> whole_snapshot(const std::filesystem::path& path, const Log& log);

}  // namespace lockstep::cli
