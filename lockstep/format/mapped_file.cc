// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "lockstep/base/file.h"

namespace lockstep {

MappedFile::MappedFile(const std::filesystem::path& path) {
  // If a named pipe has the file's name, a plain open() would wait for a writer. With O_NONBLOCK it returns, and the
  // pipe is an error.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) throw io_error("open", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw io_error("read", path, errno);
  if (!S_ISREG(status.st_mode)) throw io_error("read", path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
  if (status.st_size == 0) return;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (start == MAP_FAILED) throw io_error("map", path, errno);
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace lockstep
