// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/hashed_file.h"

#include <fcntl.h>
#include <limits.h>

#include <algorithm>
#include <cerrno>

#include "lockstep/format/io_error.h"

namespace lockstep {
namespace {

// Small enough that the kernel's copy still finds in the cache what the checksum has just read.
constexpr std::size_t kBatchBytes = std::size_t{1} << 20U;
constexpr std::size_t kBatchParts = IOV_MAX;
// So much is sent to the disk at a time, while the next bytes are still copied and hashed: the sync at the end finds
// little left.
constexpr std::uint64_t kDiskBytes = std::uint64_t{32} << 20U;

}  // namespace

void HashedFile::append(std::span<const std::byte> part) {
  while (!part.empty()) {
    const auto now = part.first(std::min(part.size(), kBatchBytes - waiting_));
    sum_.update(now);
    parts_.push_back({const_cast<std::byte*>(now.data()), now.size()});
    waiting_ += now.size();
    part = part.subspan(now.size());
    if (waiting_ == kBatchBytes || parts_.size() == kBatchParts) write_parts();
  }
}

WrittenFile HashedFile::finished() {
  write_parts();
  return {.bytes = written_, .xxh3 = sum_.digest64()};
}

void HashedFile::write_parts() {
  const std::uint64_t before = written_ / kDiskBytes;
  std::span<iovec> left = parts_;
  while (!left.empty()) {
    const ssize_t put = ::writev(fd_, left.data(), static_cast<int>(left.size()));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw io_error("write", path_, errno);
    auto gone = static_cast<std::size_t>(put);
    written_ += gone;
    while (!left.empty() && gone >= left.front().iov_len) {
      gone -= left.front().iov_len;
      left = left.subspan(1);
    }
    if (gone > 0) {
      left.front().iov_base = static_cast<std::byte*>(left.front().iov_base) + gone;
      left.front().iov_len -= gone;
    }
  }
  parts_.clear();
  waiting_ = 0;
  const std::uint64_t after = written_ / kDiskBytes;
  // A hint only: a pipe or a file system that knows no such call refuses it, and the sync does all.
  if (after > before) ::sync_file_range(fd_, before * kDiskBytes, (after - before) * kDiskBytes, SYNC_FILE_RANGE_WRITE);
}

}  // namespace lockstep
