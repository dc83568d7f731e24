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
#include <filesystem>
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

/// Writes parts from anywhere in memory to a file, one after the other, and hashes them on the way. No part is copied,
/// so each must stay unchanged until finished() returns.
class HashedFile {
 public:
  /// `fd` is open for writing and stays open. `path` is for messages.
  HashedFile(int fd, std::filesystem::path path) : fd_(fd), path_(std::move(path)) {}

  /// Throws: Error(kIo), here or in finished().
  void append(std::span<const std::byte> part);
  /// Writes the parts that are left. Nothing is synced.
  WrittenFile finished();

 private:
  void write_parts();

  int fd_;
  std::filesystem::path path_;
  std::vector<iovec> parts_;
  std::size_t waiting_ = 0;  ///< Bytes in parts_.
  std::uint64_t written_ = 0;
  Xxh3Stream sum_;
};

}  // namespace lockstep
