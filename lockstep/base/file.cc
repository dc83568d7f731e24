// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "lockstep/base/absolute_folder.h"
#include "lockstep/base/error.h"

namespace lockstep {

FileDescriptor::~FileDescriptor() { reset(); }

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int FileDescriptor::release() { return std::exchange(fd_, -1); }

void FileDescriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

std::string system_fact(std::string_view action, const std::filesystem::path& path, int error_number) {
  return std::string(action) + " '" + path.string() + "' failed: " + std::generic_category().message(error_number);
}

Error io_error(std::string_view action, const std::filesystem::path& path, int error_number) {
  std::string_view hint = "check the path and its permissions";
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      hint = "free some space, or put the run elsewhere with --run-dir; what was saved before is untouched";
      break;
    case EFBIG:
      hint = "raise the limit on a file's size (ulimit -f); what was saved before is untouched";
      break;
    case EIO:
      hint = "the device or the network behind this path fails; what was saved before is untouched";
      break;
    case ENOENT:
      hint = "check the spelling; relative paths start at the current folder, and at the recipe's within a recipe";
      break;
    case EROFS:
    case EACCES:
    case EPERM:
      hint = "name a path that you may use, or have its owner change its permissions";
      break;
    default:
      break;
  }
  return Error(ErrorKind::kIo, system_fact(action, path, error_number), hint);
}

std::string text_of_file(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw io_error("open", path, errno);
  std::string text;
  std::size_t used = 0;
  text.resize(16384);
  while (true) {
    const ssize_t got = ::read(file.get(), text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw io_error("read", path, errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (used == text.size()) text.resize(text.size() * 2);
  }
  text.resize(used);
  return text;
}

void check_may_read(const std::filesystem::path& path) {
  std::error_code ignored;
  // In a folder that may be entered but not listed, files can be opened by name.
  const int wanted = std::filesystem::is_directory(path, ignored) ? X_OK : R_OK;
  if (::faccessat(AT_FDCWD, path.c_str(), wanted, AT_EACCESS) == 0 || errno == ENOENT || errno == ENOTDIR) return;
  throw io_error("look at", path, errno);
}

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) throw io_error("write", path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

FileDescriptor open_file(const std::filesystem::path& path, int flags, unsigned mode) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return FileDescriptor(fd);
}

void sync_file(const FileDescriptor& file, const std::filesystem::path& path) {
  while (::fsync(file.get()) != 0) {
    if (errno != EINTR) throw io_error("sync", path, errno);
  }
}

// Network file systems report a full quota only when a file is closed.
void close_file(FileDescriptor file, const std::filesystem::path& path) {
  if (::close(file.release()) != 0 && errno != EINTR) throw io_error("close", path, errno);
}

void write_whole(const std::filesystem::path& path, std::string_view text, bool durable) {
  std::filesystem::path temporary = path;
  temporary += ".tmp-" + std::to_string(::getpid());
  auto file = open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (!file) throw io_error("create", temporary, errno);
  try {
    write_all(file.get(), std::as_bytes(std::span(text)), temporary);
    if (durable) sync_file(file, temporary);
    close_file(std::move(file), temporary);
    if (::rename(temporary.c_str(), path.c_str()) != 0) throw io_error("rename", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (durable) sync_folder(path.parent_path());
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path place = folder.empty() ? "." : folder;
  const auto fd = open_file(place, O_RDONLY | O_DIRECTORY);
  if (!fd) throw io_error("open", place, errno);
  // Some parallel file systems refuse to sync a folder. On these, a rename is on disk without a sync.
  while (::fsync(fd.get()) != 0) {
    if (errno == EINVAL || errno == EROFS) return;
    if (errno != EINTR) throw io_error("sync", place, errno);
  }
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw io_error("create", folder, error.value());
}

void make_durable_folder(const std::filesystem::path& folder) {
  const auto whole = absolute_folder(folder);
  auto made = missing_folders(whole);
  make_folder(whole);
  if (made.empty()) made.push_back(whole);
  for (const auto& each : made) {
    const auto parent = each.parent_path();
    if (::access(parent.c_str(), R_OK) == 0) sync_folder(parent);
  }
}

std::vector<std::filesystem::path> missing_folders(std::filesystem::path folder) {
  std::vector<std::filesystem::path> missing;
  std::error_code none;
  while (folder.has_relative_path() && !std::filesystem::exists(folder, none)) {
    missing.push_back(folder);
    folder = folder.parent_path();
  }
  return missing;
}

}  // namespace lockstep
