// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Finds, checks and removes the snapshots of a run.
///
///     const auto snapshot = lockstep::newest_whole_snapshot("runs/digits/snapshots", [](const auto& entry, const auto&
///     why) {
///       std::cerr << entry.path << " is damaged: " << why << "\n";
///     });
///     if (snapshot) std::cout << "resume from step " << snapshot->step << "\n";

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/format/safetensors.h"
#include "lockstep/format/snapshot/manifest.h"

namespace lockstep {

/// A snapshot is a folder `snapshots/step-NNNNNNNNNN/` with files and a MANIFEST. It is written under a temporary name,
/// synced, and then renamed. `snapshots/latest` is a symbolic link to the one written last.
/// docs/formats/snapshot-format.md describes the bytes.

/// A snapshot found on disk.
struct SnapshotEntry {
  std::filesystem::path path;
  std::int64_t step = 0;
};

/// Returns the snapshots of a `snapshots/` folder, oldest first. Empty if there is no such folder. Only the names are
/// read, and no file is opened.
std::vector<SnapshotEntry> listed_snapshots(const std::filesystem::path& snapshots);

/// The result of checking every byte of a snapshot.
struct SnapshotCheck {
  /// The differences from MANIFEST, with file, value found and value wanted. Empty for an intact snapshot.
  std::vector<std::string> faults;
  std::vector<std::string> extra;  ///< Files that MANIFEST does not name. They are no fault.
  std::size_t files = 0;           ///< Number of files that MANIFEST names, itself included.
  std::uint64_t bytes = 0;         ///< Bytes found in those files.
};

/// Reads every byte of a snapshot and compares it with MANIFEST. A file that cannot be read is a fault too.
SnapshotCheck checked_snapshot(const std::filesystem::path& snapshot);

/// Checks every byte as verify_snapshot() does, and throws if the snapshot is not intact.
///
/// Throws: Error(kData) with the file, the value found and wanted, if it is not intact; Error(kIo) if there is no such
///         folder.
void verify_snapshot(const std::filesystem::path& snapshot);

/// Returns the newest intact snapshot, or nothing. For each newer snapshot that is damaged, it calls `on_skip` with the
/// reason, if `on_skip` is given. If it called `on_skip` and returns nothing, every snapshot is damaged. The caller
/// should then not begin a new run, which would hide this. If `fault` is given, it checks each intact snapshot further,
/// and may return a reason to skip it.
std::optional<SnapshotEntry> newest_whole_snapshot(
    const std::filesystem::path& snapshots,
    const std::function<void(const SnapshotEntry&, const std::string& reason)>& on_skip,
    const std::function<std::optional<std::string>(const std::filesystem::path&)>& fault = {});

/// Makes the symbolic link `best` beside `snapshot` point to it. prune_snapshots() never removes that snapshot.
///
/// Throws: Error(kIo) if the link cannot be changed.
void mark_best(const std::filesystem::path& snapshot);

/// The snapshots that stay.
struct Retention {
  std::int64_t newest = 0;        ///< So many of the newest ones. 0 for all.
  std::chrono::seconds every{0};  ///< Beside them, of the older ones, one for each such time. 0 for none.
};

/// Removes old snapshots, except those that `retention` keeps. The best one is not counted and stays. It never removes
/// the newest or `protect`. The time of a snapshot is when its folder was last changed, which is when it was written.
void prune_snapshots(const std::filesystem::path& snapshots, const Retention& retention,
                     const std::optional<std::filesystem::path>& protect = {});

/// Checks that the disk has room for this many more bytes in `snapshots`, by reserving them and freeing them at once.
/// File systems that cannot reserve are not checked. Throws: Error(kIo) with the free space, if there is too little.
void require_room(const std::filesystem::path& snapshots, std::uint64_t bytes);

}  // namespace lockstep
