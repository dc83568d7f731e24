// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {

/// An open file descriptor, closed with the object.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

/// Returns the whole content of a file.
///
/// Throws: Error(kIo) naming the path and the system's reason. The file is opened without a stat() before.
std::string text_of_file(const std::filesystem::path& path);

/// Says why nothing can be found in a path that a person named: the system refuses this process to look into it, for
/// example a colleague's private folder. Does nothing if the file may be read, if the folder may be entered, or if
/// nothing is there.
///
/// Throws: Error(kIo) naming the path and the system's reason.
void check_may_read(const std::filesystem::path& path);

/// Makes `path` hold exactly `text`. To do so, it writes a temporary file in the same folder, syncs that file if
/// `durable`, and renames it to `path`. A reader sees the old content or the new one, never a part.
///
/// Throws: Error(kIo). The file at `path` then still has its old content.
void write_whole(const std::filesystem::path& path, std::string_view text, bool durable = true);

/// Writes all of `bytes`, going on after short writes and interruptions.
///
/// Throws: Error(kIo) naming `path`, with how to go on if the disk or the quota is full.
void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);

/// Call open(), fsync() and close(). If a signal interrupts the call, as can happen on network file systems, they call
/// it again. Only close() is not repeated, since Linux has closed the file by then.
///
/// open_file() returns an empty descriptor with errno set. The others throw: Error(kIo) naming `path`.
FileDescriptor open_file(const std::filesystem::path& path, int flags, unsigned mode = 0);
void sync_file(const FileDescriptor& file, const std::filesystem::path& path);
void close_file(FileDescriptor file, const std::filesystem::path& path);

/// Syncs a folder's entries to disk, so that a rename in it outlives a crash.
void sync_folder(const std::filesystem::path& folder);

/// Creates the folder and its missing parents.
///
/// Throws: Error(kIo) naming the folder and the system's reason.
void make_folder(const std::filesystem::path& folder);

/// Creates the folder and its missing parents so that they survive a crash. It syncs the parent of each folder that it
/// created. If the folder existed already, its parent is synced too, since another process may have created the folder
/// just before.
///
/// Throws: Error(kIo) if a folder cannot be created or synced. A parent that this process may not read is not synced.
void make_durable_folder(const std::filesystem::path& folder);

/// Returns the folder and those of its parents that do not exist, innermost first.
std::vector<std::filesystem::path> missing_folders(std::filesystem::path folder);

/// "open '/x/y' failed: Permission denied", for an Error's fact.
std::string system_fact(std::string_view action, const std::filesystem::path& path, int error_number);

/// Returns an Error(kIo) for a failed system call. It names the action, the path, the system's reason and the way out.
Error io_error(std::string_view action, const std::filesystem::path& path, int error_number);

}  // namespace lockstep
