// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace lockstep {

/// A plain file's bytes, mapped into memory for reading. Spans of them stay good when the object is moved.
/// The system ends a process that reads a mapping whose file was cut short meanwhile: not for files still being
/// written.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws: Error(kIo) where it cannot be opened or mapped, or is no plain file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace lockstep
