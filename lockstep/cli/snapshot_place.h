// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "lockstep/base/log.h"

namespace lockstep::cli {

/// The snapshot that a person means by `path`: of a run, or of its snapshots folder, the newest that is whole, with a
/// warning for each newer one that is not; of a snapshot itself, that one. Nothing where `path` is none of these.
///
/// Throws: Error(kData) where there are snapshots and none is whole, or the one named is not.
std::optional<std::filesystem::path> whole_snapshot(const std::filesystem::path& path, const Log& log);

}  // namespace lockstep::cli
