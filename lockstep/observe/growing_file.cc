// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/growing_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "lockstep/base/file.h"

namespace lockstep {
namespace {

std::string text_at(int fd, std::int64_t from, std::int64_t to, const std::filesystem::path& path) {
  std::string text(static_cast<std::size_t>(to - from), '\0');
  std::size_t used = 0;
  while (used < text.size()) {
    const auto got = ::pread(fd, text.data() + used, text.size() - used, from + static_cast<off_t>(used));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw io_error("read", path, errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  text.resize(used);
  return text;
}

}  // namespace

GrowingFile::GrowingFile(std::filesystem::path path, FirstLook first) : path_(std::move(path)), first_(first) {}

void GrowingFile::read(const std::function<void(std::string_view)>& take) {
  const FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && errno == ENOENT) return;
  if (!file) throw io_error("open", path_, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw io_error("read", path_, errno);
  if (status.st_size < at_) {
    at_ = 0;
    is_in_a_line_ = false;
  }
  const std::int64_t head = at_ == 0 ? first_.head_bytes : 0;
  if (status.st_size - at_ > head + first_.tail_bytes) {
    if (head > 0) read_part(file.get(), head, take);
    // Reading starts one byte early. If that byte is the end of a line, the next line is complete.
    at_ = status.st_size - first_.tail_bytes - 1;
    is_in_a_line_ = true;
  }
  read_part(file.get(), status.st_size, take);
}

void GrowingFile::read_part(int fd, std::int64_t end, const std::function<void(std::string_view)>& take) {
  const std::string text = text_at(fd, at_, end, path_);
  std::size_t from = 0;
  for (auto to = text.find('\n'); to != std::string::npos; to = text.find('\n', from)) {
    if (!is_in_a_line_) take(std::string_view(text).substr(from, to - from));
    is_in_a_line_ = false;
    from = to + 1;
  }
  at_ += static_cast<std::int64_t>(from);
}

}  // namespace lockstep
