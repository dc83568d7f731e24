// SPDX-License-Identifier: Apache-2.0
// How compiled code travels from job to job. At the start of a job, the first task on a node takes a lock, unpacks the
// pack into a temporary folder and renames it. The other tasks wait for the lock and find the folder. A damaged pack
// gives an empty folder and a warning, since caches can always be built again.
//
// Unpacked files get a modification time that is earlier than that of any file which the job writes. So a file with a
// later time is new, and the agent sees whether the pack must be written again.
//
// At the end, the agent of one node writes a new pack under a temporary name and renames it over the old one. It takes
// the node's files, and adds those that only the old pack has, up to a limit. If two jobs end at once, the last rename
// wins, and the files that only the other had are compiled again. Locks, temporary files and databases in the middle of
// a transaction are left out, and a file that changes while it is read stops the attempt.
#include "lockstep/agent/cache_pack.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/format/mapped_file.h"
#include "lockstep/format/torch/zip_file.h"
#include "lockstep/format/torch/zip_unpack.h"
#include "lockstep/format/torch/zip_writer.h"
#include "lockstep/launch/node_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOwn = "rank-";       // Of tasks on the node.
constexpr std::string_view kOwnPacked = "rank";  // Of any task, in the pack and beside them.
constexpr std::string_view kGiver = "rank-0";

fs::path with_suffix(const fs::path& path, const std::string& suffix) { return path.string() + suffix; }
std::string own_suffix() { return ".part-" + std::to_string(::getpid()); }

std::optional<CachedFile> cached_file(const fs::path& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  return CachedFile{static_cast<std::uint64_t>(found.st_size),
                    static_cast<std::int64_t>(found.st_mtim.tv_sec) * 1'000'000'000 + found.st_mtim.tv_nsec};
}

/// Returns the database that a file of an unfinished SQLite transaction belongs to. Without that file the database is
/// not complete. Empty for any other file.
std::string database_of(const std::string& name) {
  for (const std::string_view end : {"-journal", "-wal", "-shm"}) {
    if (name.ends_with(end)) return name.substr(0, name.size() - end.size());
  }
  return {};
}

bool is_passing(const std::string& name) {
  const auto is_plain = [](char c) { return c > ' ' && c < 127 && c != '\\'; };
  return name.ends_with(".lock") || name.ends_with(".tmp") || !std::ranges::all_of(name, is_plain);
}

/// Returns the name in the pack for the file `name` on the node. Empty if the file is not packed.
std::string packed_name(const std::string& name) {
  const auto first = name.substr(0, name.find('/'));
  if (first == kGiver) return std::string(kOwnPacked) + name.substr(first.size());
  return first == kOwnPacked || first.starts_with(kOwn) ? std::string() : name;
}

fs::path place_of(const std::string& packed, const fs::path& folder) {
  const auto first = packed.substr(0, packed.find('/'));
  return folder / (first == kOwnPacked ? std::string(kGiver) + packed.substr(first.size()) : packed);
}

/// The modification time of this file tells when the folder was filled.
fs::path lock_of(const fs::path& folder) { return with_suffix(folder, ".lock"); }

std::uint64_t bytes_of(const CachedFiles& files) {
  std::uint64_t bytes = 0;
  for (const auto& [name, file] : files) bytes += file.bytes;
  return bytes;
}

/// By how much an unpacked file's time is set before its folder's. No file system rounds times by more than this.
constexpr std::chrono::seconds kUnpackedAge{4};

/// Sets one modification time on all that was unpacked into `folder` and on the folder's lock. It lies before anything
/// that a program writes from now on. Kernels take file times from a clock that ticks every few milliseconds, so
/// without this a file of a short job might have the same time. Folders get the mode that make_private_folder() asks
/// for, since unpacking follows the umask.
void settle(const fs::path& folder, int lock) {
  struct timespec time {};
  ::clock_gettime(CLOCK_REALTIME, &time);
  time.tv_sec -= kUnpackedAge.count();
  const std::array<struct timespec, 2> times{time, time};
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error); !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    if (it->is_directory() && ::chmod(it->path().c_str(), 0700) != 0) throw io_error("make private", it->path(), errno);
    if (::utimensat(AT_FDCWD, it->path().c_str(), times.data(), 0) != 0) {
      throw io_error("set the time of", it->path(), errno);
    }
  }
  if (error) throw io_error("list", folder, error.value());
  if (::futimens(lock, times.data()) != 0) throw io_error("set the time of", lock_of(folder), errno);
}

/// A temporary file. The destructor removes it, unless it was renamed.
class PassingFile {
 public:
  explicit PassingFile(fs::path path) : path_(std::move(path)) {}
  ~PassingFile() { ::unlink(path_.c_str()); }
  PassingFile(const PassingFile&) = delete;
  PassingFile& operator=(const PassingFile&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Adds the pack's files that `files` lacks, as long as there is room. It reads a copy on the node. If another node
/// replaced a file meanwhile, a network file system would take its bytes away.
void add_others(const fs::path& copy, const CachedFiles& files, ZipWriter& writer) {
  const MappedFile mapped(copy);
  const ZipFile old(mapped.bytes(), copy.string());
  std::uint64_t bytes = bytes_of(files);
  for (const auto& [name, entry] : old.entries()) {
    if (files.contains(name) || name.ends_with('/') || !entry.is_stored) continue;
    bytes += entry.bytes;
    if (bytes > CachePack::kMostBytes) return;
    writer.add(name, old.entry(name));
  }
}

}  // namespace

void CachePack::warm(const std::function<void(const std::string&)>& warn) const {
  const auto lock_path = lock_of(folder_);
  const FileDescriptor lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock) throw io_error("open", lock_path, errno);
  while (::flock(lock.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  std::error_code none;
  if (fs::exists(folder_, none)) return make_private_folder(folder_);
  const auto part = with_suffix(folder_, own_suffix());
  make_private_folder(part);
  try {
    unpack(part);
  } catch (const Error& error) {
    warn("the caches of earlier jobs are left out: " + std::string(error.what()));
    fs::remove_all(part, none);
    make_private_folder(part);
  }
  settle(part, lock.get());
  if (::rename(part.c_str(), folder_.c_str()) != 0) throw io_error("rename", part, errno);
}

std::int64_t CachePack::warmed_ns() const {
  const auto lock = cached_file(lock_of(folder_));
  return lock ? lock->changed_ns : 0;
}

void CachePack::unpack(const fs::path& to) const {
  std::error_code error;
  if (!fs::exists(pack_, error)) return;
  const PassingFile copy(with_suffix(to, ".zip"));
  fs::copy_file(pack_, copy.path(), error);
  if (error) throw io_error("copy", pack_, error.value());
  unpack_zip(copy.path(), to, [](std::uint64_t, std::uint64_t) {});
}

void CachePack::make_own(const fs::path& own) const {
  std::error_code error;
  if (fs::exists(own, error) || !fs::exists(folder_ / kOwnPacked, error)) return make_private_folder(own);
  make_private_folder(own);
  const fs::path packed = folder_ / kOwnPacked;
  fs::copy(packed, own, fs::copy_options::recursive, error);
  if (error) throw io_error("copy caches to", own, error.value());
  for (const auto& entry : fs::recursive_directory_iterator(own, error)) {
    // A file that was unpacked from the pack does not count as new.
    fs::last_write_time(entry.path(), fs::last_write_time(packed / entry.path().lexically_relative(own), error), error);
  }
}

CachedFiles CachePack::files() const {
  CachedFiles found;
  std::vector<std::string> unfinished;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder_, error); !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    const auto name = packed_name(it->path().lexically_relative(folder_).string());
    const auto file = cached_file(it->path());
    if (name.empty() || !file || is_passing(name)) continue;
    if (const auto database = database_of(name); !database.empty()) {
      unfinished.push_back(database);
    } else {
      found.emplace(name, *file);
    }
  }
  for (const auto& name : unfinished) found.erase(name);
  return found;
}

bool CachePack::give_back(const CachedFiles& files) const {
  if (bytes_of(files) > kMostBytes) return false;
  make_folder(pack_.parent_path());
  const PassingFile part(with_suffix(pack_, own_suffix() + "-" + folder_.parent_path().filename().string()));
  const FileDescriptor out(::open(part.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out) throw io_error("create", part.path(), errno);
  ZipWriter writer(out.get(), part.path());
  for (const auto& [name, file] : files) {
    const auto path = place_of(name, folder_);
    const auto bytes = text_of_file(path);
    if (cached_file(path) != file) return false;
    writer.add(name, std::as_bytes(std::span(bytes)));
  }
  const PassingFile copy(with_suffix(folder_, own_suffix() + ".zip"));
  std::error_code none;
  try {
    if (fs::copy_file(pack_, copy.path(), none)) add_others(copy.path(), files, writer);
  } catch (const Error& error) {
    // If the old pack is damaged, the new one replaces it without its files.
    if (error.kind() != ErrorKind::kData) throw;
  }
  writer.finish();
  if (::rename(part.path().c_str(), pack_.c_str()) != 0) throw io_error("rename", part.path(), errno);
  return true;
}

}  // namespace lockstep
