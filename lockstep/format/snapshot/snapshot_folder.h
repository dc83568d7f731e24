// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// Snapshots on disk: `snapshots/step-NNNNNNNNNN/` with files and a MANIFEST, written under a temporary name, synced,
/// renamed. `snapshots/latest` is a symbolic link to the one written last. docs/snapshot-format.md gives the bytes.

/// A snapshot found on disk.
struct SnapshotEntry {
  std::filesystem::path path;
  std::int64_t step = 0;
};

/// The snapshots of a `snapshots/` folder, oldest first, by name alone: none is opened. Empty where there is no such
/// folder.
std::vector<SnapshotEntry> listed_snapshots(const std::filesystem::path& snapshots);

/// What reading every byte of a snapshot has shown.
struct SnapshotCheck {
  std::vector<std::string>
      faults;  ///< What differs from MANIFEST: file, value found, value wanted. Empty for a whole one.
  std::vector<std::string> extra;  ///< Files that MANIFEST does not name. They do not make it less whole.
  std::size_t files = 0;           ///< As MANIFEST says, itself included.
  std::uint64_t bytes = 0;         ///< Of those files, as found.
};

/// Reads every byte and compares it with MANIFEST. What cannot be read is a fault too.
SnapshotCheck checked_snapshot(const std::filesystem::path& snapshot);

/// The same for those who want a whole one only.
///
/// Throws: Error(kData) with the file, the value found and wanted, where it is not whole; Error(kIo) where it is no
/// folder.
void verify_snapshot(const std::filesystem::path& snapshot);

/// The newest snapshot that verifies. `on_skip` hears of each newer one that does not, with the reason. Where it was
/// called and nothing is returned, every snapshot is damaged: starting anew would hide that.
std::optional<SnapshotEntry> newest_whole_snapshot(
    const std::filesystem::path& snapshots,
    const std::function<void(const SnapshotEntry&, const std::string& reason)>& on_skip);

/// Makes `best`, a symbolic link beside `snapshot`, point to it. The snapshot that it points to is never pruned.
///
/// Throws: Error(kIo); the link is then as it was.
void mark_best(const std::filesystem::path& snapshot);

/// Removes the oldest snapshots until `keep` are left, the best one not counted; never the newest, never `protect`.
/// keep < 1 keeps all.
void prune_snapshots(const std::filesystem::path& snapshots, std::int64_t keep,
                     const std::optional<std::filesystem::path>& protect = {});

}  // namespace lockstep
