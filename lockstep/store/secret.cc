// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/secret.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "lockstep/base/cache_folder.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 10;
constexpr mode_t kOfOthers = 077;

[[noreturn]] void refuse(const fs::path& path, const std::string& fault) {
  throw Error(ErrorKind::kEnvironment, "'" + path.string() + "' " + fault + ", so it keeps no secret",
              "remove it and start again; a file system that keeps no owners and modes cannot hold a run folder's "
              ".meeting or the cache folder (LOCKSTEP_CACHE)");
}

void require_private(const fs::path& path, const struct stat& found) {
  if (found.st_uid != ::geteuid()) {
    refuse(path, "belongs to user " + std::to_string(found.st_uid) + ", want " + std::to_string(::geteuid()));
  }
  if ((found.st_mode & kOfOthers) != 0) {
    std::array<char, 8> mode{};
    std::snprintf(mode.data(), mode.size(), "%04o", static_cast<unsigned>(found.st_mode & 07777U));
    refuse(path, "has the mode " + std::string(mode.data()) + ", want " + (S_ISDIR(found.st_mode) ? "0700" : "0600"));
  }
}

// Another process may create the same folder at this moment, or remove it when it is the folder's last user.
void make_private(const fs::path& folder) {
  make_folder(folder.parent_path());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw io_error("create", folder, errno);
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) return;
  // The folder may exist already, for the file with rank 0's address. That file is not secret, so others may be able to
  // enter the folder.
  const bool is_ours = S_ISDIR(found.st_mode) && found.st_uid == ::geteuid();
  if (is_ours && (found.st_mode & kOfOthers) != 0) ::chmod(folder.c_str(), 0700);
}

// Writes a file so that nobody sees a part of it. The file gets its name once it is complete, and only if no other file
// has that name.
bool write_new(const fs::path& path, std::string_view bytes) {
  const fs::path part = path.string() + "." + std::to_string(::getpid());
  FileDescriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) {
    if (errno == ENOENT) return false;
    throw io_error("create", part, errno);
  }
  write_all(file.get(), std::as_bytes(std::span(bytes)), part);
  // Some file systems have no hard links.
  const bool is_named = ::link(part.c_str(), path.c_str()) == 0 ||
                        (errno != EEXIST && errno != ENOENT && ::rename(part.c_str(), path.c_str()) == 0);
  ::unlink(part.c_str());
  return is_named;
}

// NFS remembers that a name is missing until the folder is opened again.
void look_again(const fs::path& folder) {
  if (DIR* opened = ::opendir(folder.c_str())) ::closedir(opened);
}

}  // namespace

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t done = 0; done < count;) {
    const auto got = ::getrandom(bytes.data() + done, count - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error(ErrorKind::kEnvironment, std::string("getrandom failed: ") + std::strerror(errno),
                  "a kernel from 3.17 on has it; a sandbox may forbid it");
    }
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

Secret Secret::make() { return *from(random_bytes(kBytes)); }

std::optional<Secret> Secret::from(std::string_view bytes) {
  if (bytes.size() != kBytes) return std::nullopt;
  Secret secret;
  secret.bytes_ = bytes;
  return secret;
}

fs::path secret_folder(const fs::path& run_dir, const std::string& start, const Environment& env) {
  if (!run_dir.empty()) return fs::absolute(run_dir).lexically_normal() / ".meeting";
  std::string name = start;
  std::ranges::replace(name, '/', '_');
  return fs::absolute(cache_folder(env)) / "meeting" / name;
}

SecretFile::SecretFile(const fs::path& folder) : path_(folder / "secret") {}

Secret SecretFile::create() {
  if (made_folders_.empty()) made_folders_ = missing_folders(path_.parent_path());
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    make_private(path_.parent_path());
    if (::access(path_.c_str(), F_OK) != 0) write_new(path_, Secret::make().bytes());
    held_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (held_) ::flock(held_.get(), LOCK_SH | LOCK_NB);
    // If the file cannot be read, its last user has removed it meanwhile.
    if (const auto secret = read()) return *secret;
  }
  throw Error(ErrorKind::kIo, "'" + path_.string() + "' disappears again and again", "choose another run folder");
}

std::optional<Secret> SecretFile::read() const {
  const FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) return look_again(path_.parent_path()), std::nullopt;
    throw io_error("open", path_, errno);
  }
  struct stat found {};
  if (::lstat(path_.parent_path().c_str(), &found) == 0) require_private(path_.parent_path(), found);
  if (::fstat(file.get(), &found) != 0) throw io_error("stat", path_, errno);
  require_private(path_, found);
  std::array<char, Secret::kBytes + 1> bytes{};
  const auto got = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  if (got < 0) throw io_error("read", path_, errno);
  auto secret = Secret::from({bytes.data(), static_cast<std::size_t>(got)});
  if (!secret) {
    throw Error(ErrorKind::kIo,
                "'" + path_.string() + "' holds " + std::to_string(found.st_size) + " bytes, want " +
                    std::to_string(Secret::kBytes),
                "remove it and start again");
  }
  return secret;
}

void SecretFile::remove() {
  if (!held_) return;
  const bool is_last = ::flock(held_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  held_.reset();
  if (!is_last) return;
  ::unlink(path_.c_str());
  ::rmdir(path_.parent_path().c_str());
  for (const auto& folder : made_folders_) {
    if (folder != path_.parent_path() && ::rmdir(folder.c_str()) != 0) return;
  }
}

}  // namespace lockstep
