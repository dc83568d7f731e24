// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/snapshot_place.h"

#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/format/snapshot/snapshot_folder.h"

namespace lockstep::cli {

namespace fs = std::filesystem;

std::optional<fs::path> whole_snapshot(const fs::path& path, const Log& log) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::nullopt;
  if (fs::exists(path / kManifestName, error)) {
    verify_snapshot(path);
    return path;
  }
  const bool is_run = fs::is_directory(path / "snapshots", error);
  const fs::path snapshots = is_run ? path / "snapshots" : path;
  bool is_any_damaged = false;
  const auto newest = newest_whole_snapshot(snapshots, [&](const SnapshotEntry& entry, const std::string& reason) {
    is_any_damaged = true;
    log.warning(entry.path.string() + " is not whole and is passed over: " + reason);
  });
  if (newest) return newest->path;
  if (is_any_damaged) {
    throw Error(ErrorKind::kData, "'" + path.string() + "' has no whole snapshot",
                "`lockstep snapshot ls` shows what is wrong with each");
  }
  return std::nullopt;
}

}  // namespace lockstep::cli
