// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace lockstep {

/// Writes a zip file of stored entries, each aligned to 64 bytes as torch.save does, so that readers may map them. The
/// same entries always give the same bytes, at any time and on any machine.
class ZipWriter {
 public:
  /// `fd` is open for writing at its start. `path` is for messages.
  ZipWriter(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}

  /// Adds an entry. `entry` is ASCII and unique. Throws: Error(kIo) if writing fails.
  void add(const std::string& entry, std::span<const std::byte> bytes);

  /// Writes the zip directory. The file is not synced. Throws: Error(kIo) if writing fails.
  void finish();

 private:
  void write(const std::string& text);

  int fd_;
  std::filesystem::path path_;
  std::uint64_t at_ = 0;
  std::uint64_t entries_ = 0;
  std::string directory_;
};

}  // namespace lockstep
