// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

struct zip;

namespace lockstep {

/// Writes a zip file of stored entries, each aligned to 64 bytes as torch.save does, so that readers may map them.
/// The same entries give the same bytes, whenever and wherever they are written.
class ZipWriter {
 public:
  /// Throws: Error(kIo) where the file cannot be made.
  explicit ZipWriter(std::filesystem::path path);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  /// `bytes` are read in finish(), and must stay until then. `entry` is ASCII.
  void add(const std::string& entry, std::span<const std::byte> bytes);

  /// Writes the file; nothing is synced. Where it throws or is not called, there is none. Throws: Error(kIo).
  void finish();

 private:
  [[noreturn]] void fail(const std::string& action);

  std::filesystem::path path_;
  ::zip* zip_ = nullptr;
  std::uint64_t at_ = 0;  ///< Where the next entry's header will start.
};

}  // namespace lockstep
