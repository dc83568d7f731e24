// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Writes a file and its checksum in one pass, without copying the data.
///
///     lockstep::HashedFile file(fd, "weights.bin");
///     file.append(bytes);
///     const lockstep::WrittenFile written = file.finished();
///     std::cout << written.bytes << " bytes\n";

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/base/checksum.h"

namespace lockstep {

/// The size and the checksum of a written file, for a manifest.
struct WrittenFile {
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;

  bool operator==(const WrittenFile&) const = default;
};

/// Writes parts from anywhere in memory to a file, one after the other, and hashes them on the way. Each part must stay
/// unchanged until finished() returns.
///
/// A large file on ext4 or XFS bypasses the page cache (O_DIRECT) through a buffer of 16 MiB. That takes half the time
/// and a third of the CPU time (docs/measured/direct-writes.md), and leaves training data in the cache.
class HashedFile {
 public:
  /// Begins a file. `fd` is open for writing, at offset 0, and stays open. `path` is for messages. `expected` is the
  /// approximate size in bytes, or 0 if it is unknown.
  HashedFile(int fd, std::filesystem::path path, std::uint64_t expected = 0);

  /// Adds a part to the file. Throws: Error(kIo) if writing fails, here or in finished().
  void append(std::span<const std::byte> part);
  /// Writes the parts that are left, and returns size and checksum. The file is not synced.
  WrittenFile finished();

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  bool set_direct(bool is_direct);
  void copy(std::span<const std::byte> part);
  void write_buffer();
  void write_parts();

  int fd_;
  std::filesystem::path path_;
  std::vector<iovec> parts_;
  std::size_t waiting_ = 0;  ///< Bytes in parts_, or in the buffer.
  std::unique_ptr<std::byte, Free> buffer_;
  bool is_direct_ = false;
  std::uint64_t written_ = 0;
  Xxh3Stream sum_;
};

}  // namespace lockstep
