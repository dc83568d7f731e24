// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/format/safetensors.h"
#include "lockstep/format/snapshot/manifest.h"

namespace lockstep {

/// Writes one snapshot. Readers see nothing of it until it is complete. A writer that dies leaves only a folder whose
/// name starts with ".tmp-", which the next writer removes. A `snapshots` folder has one writer at a time.
class SnapshotWriter {
 public:
  /// Makes the temporary folder. Throws: Error(kIo) if it cannot be made.
  SnapshotWriter(const std::filesystem::path& snapshots, std::int64_t step);
  /// Removes the files if commit() was not reached.
  ~SnapshotWriter();
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  /// Throws: Error(kIo) if writing fails. Earlier snapshots stay as they are.
  void add_tensors(const std::string& file, std::span<const TensorEntry> tensors);
  void add_text(const std::string& file, std::string_view text);

  /// Writes MANIFEST, and `run-id` if there is none. Then it syncs the folder, renames it to its name, and moves the
  /// link `latest`. A snapshot of the same step is replaced, and readers find one of the two at any moment. Nothing may
  /// be added afterwards. Returns the snapshot's path. Blocks: until the data is on disk.
  std::filesystem::path commit();

  /// Returns the number of bytes written so far, including MANIFEST.
  std::uint64_t bytes() const { return bytes_; }

 private:
  using Write = std::function<WrittenFile(int fd, const std::filesystem::path& path)>;
  WrittenFile written_file(const std::string& file, const Write& write);
  WrittenFile written_text(const std::string& file, std::string_view text);

  std::filesystem::path snapshots_;
  std::filesystem::path temporary_;
  Manifest manifest_;
  std::uint64_t bytes_ = 0;
  bool is_placed_ = false;  ///< True once the snapshot has its name. The temporary name then holds the snapshot that it
                            ///< replaced, if any.
};

}  // namespace lockstep
