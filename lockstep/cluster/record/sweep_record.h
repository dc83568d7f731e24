// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A trial of a sweep, with a run folder inside the sweep's.
struct SweptTrial {
  std::string name{};               ///< Name of its folder, such as "01-lr-0.1".
  std::vector<std::string> sets{};  ///< "optimizer.lr=0.1", as `submit --sweep` was given it.
};

/// Writes `sweep.json` into a sweep's folder, which must exist.
///
/// Throws: Error(kIo) if the file cannot be written.
void keep_sweep(const std::filesystem::path& folder, const std::vector<SweptTrial>& trials);

/// Returns the trials of a sweep's folder, in the order in which they were submitted. Nothing if the folder is not a
/// sweep's.
///
/// Throws: Error(kData) if the file was not written by keep_sweep().
std::optional<std::vector<SweptTrial>> kept_sweep(const std::filesystem::path& folder);

}  // namespace lockstep
