// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A file's bytes in memory, without reading them first.
///
///     const lockstep::MappedFile file("weights.bin");
///     std::cout << file.bytes().size() << " bytes, sum " << lockstep::xxh3_64(file.bytes()) << "\n";

#include <cstddef>
#include <filesystem>
#include <span>

namespace lockstep {

/// A regular file's bytes, mapped into memory for reading. Spans of these bytes stay valid if the object is moved.
///
/// Do not map a file that is still being written. If a file becomes shorter, the system kills the process that reads
/// the missing part.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws: Error(kIo) if the file cannot be opened or mapped, or is not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace lockstep
