// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/snapshot/snapshot_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/format/snapshot/run_id.h"
#include "lockstep/format/snapshot/snapshot_names.h"

namespace lockstep {
namespace {

/// Computes a checksum, of either kind, over bytes that come in parts.
class RunningChecksum {
 public:
  explicit RunningChecksum(ChecksumKind kind) : kind_(kind) {}

  void update(std::span<const std::byte> bytes) {
    if (kind_ == ChecksumKind::kXxh3) {
      xxh3_.update(bytes);
    } else {
      crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    }
  }
  std::uint64_t value() const { return kind_ == ChecksumKind::kXxh3 ? xxh3_.digest64() : crc_; }

 private:
  ChecksumKind kind_;
  Xxh3Stream xxh3_;
  uLong crc_ = 0;
};

/// Reads a file of about `size` bytes to its end. It uses read() and not a mapping, so that a failing disk is an error
/// and not a signal.
///
/// Throws: Error(kIo).
ManifestEntry read_file(int fd, const std::filesystem::path& path, std::uint64_t size, ChecksumKind kind) {
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 20U;
  std::vector<std::byte> block(std::clamp<std::uint64_t>(size, 1, kBlock));
  RunningChecksum sum(kind);
  ManifestEntry found{.file = path.filename()};
  while (true) {
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw io_error("read", path, errno);
    if (got == 0) break;
    sum.update(std::span(block).first(static_cast<std::size_t>(got)));
    found.bytes += static_cast<std::uint64_t>(got);
  }
  found.checksum = sum.value();
  return found;
}

/// Returns how a file on disk differs from its line in MANIFEST, or nothing if it does not. Adds the file's size to
/// `bytes`.
std::optional<std::string> fault_of(const std::filesystem::path& snapshot, const ManifestEntry& entry,
                                    ChecksumKind kind, std::uint64_t& bytes) {
  const std::filesystem::path path = snapshot / entry.file;
  // If a named pipe has the file's name, a plain open() would wait for a writer. With O_NONBLOCK it returns.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file && errno == ENOENT) return entry.file + " is missing";
  if (!file) return std::string(io_error("open", path, errno).fact());
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return std::string(io_error("read", path, errno).fact());
  if (!S_ISREG(status.st_mode)) return entry.file + " is not a plain file";
  ManifestEntry found{.bytes = static_cast<std::uint64_t>(status.st_size)};
  if (found.bytes == entry.bytes) {
    try {
      found = read_file(file.get(), path, found.bytes, kind);
    } catch (const Error& error) {
      return std::string(error.fact());
    }
  }
  bytes += found.bytes;
  if (found.bytes != entry.bytes) {
    return entry.file + " has " + std::to_string(found.bytes) + " bytes, want " + std::to_string(entry.bytes);
  }
  if (found.checksum != entry.checksum) {
    return entry.file + " has the checksum " + checksum_text(kind, found.checksum) + ", want " +
           checksum_text(kind, entry.checksum);
  }
  return std::nullopt;
}

/// Adds a fault if a snapshot is in the wrong place: the name of its folder has another step, or `snapshots` belongs to
/// another run.
void add_misplacement(const std::filesystem::path& snapshot, const Manifest& manifest, SnapshotCheck& check) {
  if (!manifest.step) return;
  std::error_code error;
  const auto real = std::filesystem::canonical(snapshot, error);  // `latest` is a link.
  if (error) return;
  const auto named = parsed_snapshot_name(real.filename().string());
  if (!named) return;
  if (named->step != *manifest.step) {
    check.faults.push_back(std::string(kManifestName) + " is of step " + std::to_string(*manifest.step) + ", want " +
                           std::to_string(named->step) + " as the folder's name says");
  }
  const auto run = run_id_of(real.parent_path());
  if (!run.empty() && run != manifest.run) {
    check.faults.push_back(std::string(kManifestName) + " is of run " + manifest.run + ", want " + run +
                           ", whose folder this is");
  }
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (auto it = std::filesystem::directory_iterator(folder, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    names.push_back(it->path().filename());
  }
  if (error) throw io_error("read", folder, error.value());
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::vector<SnapshotEntry> listed_snapshots(const std::filesystem::path& snapshots) {
  std::vector<std::tuple<std::int64_t, bool, std::string>> found;
  std::error_code error;
  if (!std::filesystem::exists(snapshots, error)) return {};
  for (const auto& name : names_in(snapshots)) {
    // Of two snapshots of one step, the one that is being replaced (".old") counts as older.
    if (const auto parsed = parsed_snapshot_name(name)) found.emplace_back(parsed->step, !parsed->is_old, name);
  }
  std::ranges::sort(found);
  return map_each(found, [&](const auto& each) {
    const auto& [step, is_current, name] = each;
    return SnapshotEntry{.path = snapshots / name, .step = step};
  });
}

SnapshotCheck checked_snapshot(const std::filesystem::path& snapshot) {
  const std::string manifest_name(kManifestName);
  SnapshotCheck check;
  std::vector<std::string> names;
  Manifest manifest;
  try {
    names = names_in(snapshot);
    if (!std::ranges::binary_search(names, manifest_name)) {
      throw Error(ErrorKind::kData, manifest_name + " is missing");
    }
    if (std::error_code ignored; !std::filesystem::is_regular_file(snapshot / manifest_name, ignored)) {
      throw Error(ErrorKind::kData, manifest_name + " is not a plain file");
    }
    const std::string text = text_of_file(snapshot / manifest_name);
    check.bytes = text.size();
    manifest = parsed_manifest(text, manifest_name);
  } catch (const Error& error) {
    check.faults.emplace_back(error.fact());
    return check;
  }
  check.files = manifest.entries.size() + 1;
  add_misplacement(snapshot, manifest, check);
  std::set<std::string> known = {manifest_name};
  for (const auto& entry : manifest.entries) {
    if (auto fault = fault_of(snapshot, entry, manifest.checksum, check.bytes))
      check.faults.push_back(std::move(*fault));
    known.insert(entry.file);
  }
  std::ranges::set_difference(names, known, std::back_inserter(check.extra));
  return check;
}

void verify_snapshot(const std::filesystem::path& snapshot) {
  names_in(snapshot);  // Throws if it is not a folder.
  const SnapshotCheck check = checked_snapshot(snapshot);
  if (check.faults.empty()) return;
  throw Error(ErrorKind::kData, snapshot.string() + " is not whole: " + joined(check.faults, "; "),
              "resume from the snapshot before it; `lockstep snapshot ls` shows which are whole");
}

std::optional<SnapshotEntry> newest_whole_snapshot(
    const std::filesystem::path& snapshots,
    const std::function<void(const SnapshotEntry&, const std::string& reason)>& on_skip,
    const std::function<std::optional<std::string>(const std::filesystem::path&)>& fault) {
  const auto entries = listed_snapshots(snapshots);
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const SnapshotCheck check = checked_snapshot(entry->path);
    const auto further = check.faults.empty() && fault ? fault(entry->path) : std::nullopt;
    if (check.faults.empty() && !further) return *entry;
    if (on_skip) on_skip(*entry, further ? *further : joined(check.faults, "; "));
  }
  return std::nullopt;
}

void mark_best(const std::filesystem::path& snapshot) {
  const auto folder = snapshot.parent_path();
  const auto link = folder / temporary_name("best");
  ::unlink(link.c_str());
  if (::symlink(snapshot.filename().c_str(), link.c_str()) != 0) throw io_error("create", link, errno);
  const auto best = folder / kBestName;
  if (::rename(link.c_str(), best.c_str()) != 0) throw io_error("rename", best, errno);
  sync_folder(folder);
}

void prune_snapshots(const std::filesystem::path& snapshots, const Retention& retention,
                     const std::optional<std::filesystem::path>& protect) {
  if (retention.newest < 1) return;
  auto entries = listed_snapshots(snapshots);
  std::error_code no_best;
  const auto best = std::filesystem::read_symlink(snapshots / kBestName, no_best);
  std::erase_if(entries, [&](const auto& entry) { return entry.path.filename() == best.filename(); });
  // Snapshots are visited from the oldest on. So it does not depend on the time of the call which ones stay.
  std::optional<std::time_t> kept_at;
  const auto stays = [&](const SnapshotEntry& entry) {
    if (retention.every.count() <= 0) return false;
    struct stat status {};
    if (::stat(entry.path.c_str(), &status) != 0) return false;
    if (kept_at && status.st_mtim.tv_sec - *kept_at < retention.every.count()) return false;
    kept_at = status.st_mtim.tv_sec;
    return true;
  };
  auto left = static_cast<std::int64_t>(entries.size());
  for (const auto& entry : entries) {
    if (left-- <= retention.newest || entry.path == entries.back().path) break;
    if (protect && protect->filename() == entry.path.filename()) {
      ++left;
    } else if (!stays(entry)) {
      remove_snapshot(entry.path);
    }
  }
}

void require_room(const std::filesystem::path& snapshots, std::uint64_t bytes) {
  if (bytes == 0) return;
  const auto path = snapshots / temporary_name("room");
  const auto file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!file) throw io_error("create", path, errno);
  ::unlink(path.c_str());
  int result = 0;
  do {
    result = ::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  const int reason = errno;
  if (result == 0 || (reason != ENOSPC && reason != EDQUOT && reason != EFBIG)) return;
  std::error_code ignored;
  const auto space = std::filesystem::space(snapshots, ignored);
  throw Error(ErrorKind::kIo,
              "a snapshot takes " + human_bytes(bytes) + ", and " + snapshots.string() +
                  " has no room for it: " + std::strerror(reason) + ", " + human_bytes(space.available) + " free",
              "free some space, or put the run elsewhere with --run-dir; what was saved before is untouched");
}

}  // namespace lockstep
