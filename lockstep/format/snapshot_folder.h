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

namespace lockstep {

/// Snapshots on disk: `snapshots/step-NNNNNNNNNN/` with files and a MANIFEST, written under a temporary name, synced, renamed.
/// `snapshots/latest` is a symbolic link to the newest whole one. docs/snapshot-format.md gives the bytes.

/// Writes one snapshot. Until commit() returns, no reader sees any of it; a writer that dies leaves only a folder whose
/// name starts with ".tmp-", which the next writer removes.
class SnapshotWriter {
 public:
  /// Throws: Error(kIo) where the folder cannot be made.
  SnapshotWriter(const std::filesystem::path& snapshots, std::int64_t step);
  /// Removes what was written where commit() was not reached.
  ~SnapshotWriter();
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  /// Throws: Error(kIo); what earlier snapshots hold is untouched.
  void add_tensors(const std::string& file, std::span<const TensorEntry> tensors);
  void add_text(const std::string& file, std::string_view text);

  /// Writes MANIFEST, syncs, renames, moves `latest`. A whole snapshot of the same step is replaced.
  /// Blocks: until the data is on disk.
  /// Returns the snapshot's path.
  std::filesystem::path commit();

  /// Bytes written until now.
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string file;
    WrittenFile written;
  };
  std::filesystem::path snapshots_;
  std::filesystem::path temporary_;
  std::int64_t step_;
  std::vector<Entry> entries_;
  std::uint64_t bytes_ = 0;
};

/// A snapshot found on disk.
struct SnapshotEntry {
  std::filesystem::path path;
  std::int64_t step = 0;
};

/// The snapshots of a `snapshots/` folder, oldest first, by name alone: none is opened. Empty where there is no such folder.
std::vector<SnapshotEntry> listed_snapshots(const std::filesystem::path& snapshots);

/// Reads every byte and compares it with MANIFEST.
///
/// Throws: Error(kData) with the file, the value found and wanted, where it is not whole; Error(kIo) where it is no folder.
void verify_snapshot(const std::filesystem::path& snapshot);

/// The newest snapshot that verifies. `on_skip` hears of each newer one that does not, with the reason.
std::optional<SnapshotEntry> newest_whole_snapshot(
    const std::filesystem::path& snapshots,
    const std::function<void(const SnapshotEntry&, const std::string& reason)>& on_skip);

/// Removes the oldest snapshots until `keep` are left; never the newest, never `protect`. keep < 1 keeps all.
void prune_snapshots(const std::filesystem::path& snapshots, std::int64_t keep,
                     const std::optional<std::filesystem::path>& protect = {});

}  // namespace lockstep
