// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/hashed_file.h"

#include <limits.h>

#include <algorithm>
#include <cerrno>

#include "lockstep/base/file.h"

namespace lockstep {
namespace {

// Small enough that the kernel's copy finds in the nearest cache what the checksum has just read.
constexpr std::size_t kBatchBytes = std::size_t{128} << 10U;
constexpr std::size_t kBatchParts = IOV_MAX;

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
}

}  // namespace lockstep
