// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/hashed_file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lockstep/base/file.h"

namespace lockstep {
namespace {

// The bytes of one write. They are so few that, when the kernel copies them, they are still in the processor's cache
// from computing the checksum.
constexpr std::size_t kBatchBytes = std::size_t{128} << 10U;
constexpr std::size_t kBatchParts = IOV_MAX;

// A direct write (O_DIRECT) must begin at a multiple of a block, in the file and in memory, and must have whole blocks.
// So the file's last bytes are written in the usual way.
constexpr std::size_t kBlockBytes = 4096;
constexpr std::size_t kBufferBytes = std::size_t{16} << 20U;
constexpr std::uint64_t kLargeBytes = 2 * kBufferBytes;

// True on ext4 and XFS. On a network file system direct writes are slower: the page cache sends many requests at once,
// while one writer sends one after the other.
bool lies_on_a_local_disk(int fd) {
  constexpr long kXfs = 0x58465342;  // Not in linux/magic.h everywhere.
  struct statfs found {};
  return ::fstatfs(fd, &found) == 0 && (found.f_type == EXT4_SUPER_MAGIC || found.f_type == kXfs);
}

}  // namespace

HashedFile::HashedFile(int fd, std::filesystem::path path, std::uint64_t expected) : fd_(fd), path_(std::move(path)) {
  if (expected < kLargeBytes || !lies_on_a_local_disk(fd)) return;
  buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, kBufferBytes)));
  if (buffer_ && !set_direct(true)) buffer_.reset();
}

bool HashedFile::set_direct(bool is_direct) {
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0 || ::fcntl(fd_, F_SETFL, is_direct ? flags | O_DIRECT : flags & ~O_DIRECT) != 0) return false;
  is_direct_ = is_direct;
  return true;
}

void HashedFile::append(std::span<const std::byte> part) {
  if (buffer_) return copy(part);
  while (!part.empty()) {
    const auto now = part.first(std::min(part.size(), kBatchBytes - waiting_));
    sum_.update(now);
    parts_.push_back({const_cast<std::byte*>(now.data()), now.size()});
    waiting_ += now.size();
    part = part.subspan(now.size());
    if (waiting_ == kBatchBytes || parts_.size() == kBatchParts) write_parts();
  }
}

void HashedFile::copy(std::span<const std::byte> part) {
  while (!part.empty()) {
    const auto now = part.first(std::min({part.size(), kBatchBytes, kBufferBytes - waiting_}));
    sum_.update(now);
    std::memcpy(buffer_.get() + waiting_, now.data(), now.size());
    waiting_ += now.size();
    part = part.subspan(now.size());
    if (waiting_ == kBufferBytes) write_buffer();
  }
}

void HashedFile::write_buffer() {
  parts_.assign(1, {buffer_.get(), waiting_});
  write_parts();
}

WrittenFile HashedFile::finished() {
  if (is_direct_ && !set_direct(false)) throw io_error("write", path_, errno);
  buffer_ ? write_buffer() : write_parts();
  return {.bytes = written_, .xxh3 = sum_.digest64()};
}

void HashedFile::write_parts() {
  std::span<iovec> left = parts_;
  while (!left.empty()) {
    const ssize_t put = ::writev(fd_, left.data(), static_cast<int>(left.size()));
    if (put < 0 && errno == EINTR) continue;
    // The disk has larger blocks than kBlockBytes, so write in the usual way.
    if (put < 0 && errno == EINVAL && is_direct_ && set_direct(false)) continue;
    if (put < 0) throw io_error("write", path_, errno);
    auto gone = static_cast<std::size_t>(put);
    written_ += gone;
    while (!left.empty() && gone >= left.front().iov_len) {
      gone -= left.front().iov_len;
      left = left.subspan(1);
    }
    // After a short write, the rest may begin in the middle of a block. So it is written in the usual way.
    if (is_direct_ && !left.empty() && !set_direct(false)) throw io_error("write", path_, errno);
    if (gone > 0) {
      left.front().iov_base = static_cast<std::byte*>(left.front().iov_base) + gone;
      left.front().iov_len -= gone;
    }
  }
  parts_.clear();
  waiting_ = 0;
}

}  // namespace lockstep
