// SPDX-License-Identifier: Apache-2.0
// How a snapshot appears at once or not at all. The steps and their order:
//
// - The files are written into a folder with a temporary name, and each is synced. Readers ignore such names.
// - MANIFEST is written last and synced, and then the folder is synced. It lists every file with size and checksum.
// - The folder is renamed to `step-NNNNNNNNNN`, and `snapshots/` is synced. From here on the snapshot exists.
// - A new link is renamed over `latest`, and `snapshots/` is synced again. Only then is a replaced snapshot removed.
//
// A crash before the first rename leaves a temporary folder, which the next writer removes. A crash between the two
// renames leaves a complete snapshot that `latest` does not name yet. Readers look for the newest folder that matches
// its MANIFEST, so they find it all the same. If a snapshot of the same step exists, the two folders exchange their
// names in one system call. If the file system lacks that call, the old one is renamed to `.old` first, and readers
// accept that name too.
//
// Renames need no space, and the link for `latest` is created before the first one. So a full disk can only stop a save
// while nothing of it is visible. One writer at a time is the caller's duty, see lock_snapshots().
#include "lockstep/format/snapshot/snapshot_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/format/snapshot/run_id.h"
#include "lockstep/format/snapshot/snapshot_names.h"

namespace lockstep {
namespace {

/// Renames the folder `made` to `place`. If a snapshot has that name already, readers see the old one until they see
/// the new one. If the file system cannot exchange two names, readers see the old one as `place`.old in between.
///
/// Returns the path that the replaced snapshot has now. Empty if nothing was replaced.
std::filesystem::path put_in_place(const std::filesystem::path& made, const std::filesystem::path& place) {
  if (::rename(made.c_str(), place.c_str()) == 0) return {};
  if (errno != ENOTEMPTY && errno != EEXIST) throw io_error("rename", place, errno);
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) == 0) return made;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) throw io_error("rename", place, errno);
  std::filesystem::path old = place;
  old += ".old";
  if (::access(old.c_str(), F_OK) == 0) remove_snapshot(old);
  if (::rename(place.c_str(), old.c_str()) != 0) throw io_error("rename", place, errno);
  if (::rename(made.c_str(), place.c_str()) != 0) {
    const int reason = errno;
    ::rename(old.c_str(), place.c_str());
    throw io_error("rename", place, reason);
  }
  return old;
}

}  // namespace

SnapshotWriter::SnapshotWriter(const std::filesystem::path& snapshots, std::int64_t step)
    : snapshots_(snapshots), temporary_(snapshots / temporary_name(snapshot_name(step))) {
  if (!std::filesystem::is_directory(snapshots_)) make_durable_folder(snapshots_);
  remove_stale_temporaries(snapshots_);
  manifest_.step = step;
  if (::mkdir(temporary_.c_str(), 0777) != 0) throw io_error("create", temporary_, errno);
}

SnapshotWriter::~SnapshotWriter() {
  std::error_code ignored;
  if (!is_placed_) std::filesystem::remove_all(temporary_, ignored);
  std::filesystem::remove(snapshots_ / temporary_name(kLatestName), ignored);
}

void SnapshotWriter::add_tensors(const std::string& file, std::span<const TensorEntry> tensors) {
  LOCKSTEP_ASSERT(is_manifest_file_name(file));
  const auto written = written_file(file, [&](int fd, const std::filesystem::path& path) {
    // Hugging Face's loaders require this key.
    return write_safetensors(fd, path, tensors, {{"format", "pt"}});
  });
  manifest_.entries.push_back({file, written.bytes, written.xxh3});
}

void SnapshotWriter::add_text(const std::string& file, std::string_view text) {
  LOCKSTEP_ASSERT(is_manifest_file_name(file));
  const auto written = written_text(file, text);
  manifest_.entries.push_back({file, written.bytes, written.xxh3});
}

std::filesystem::path SnapshotWriter::commit() {
  LOCKSTEP_ASSERT(!manifest_.entries.empty());
  manifest_.run = ensure_run_id(snapshots_);
  written_text(std::string(kManifestName), manifest_text(manifest_));
  manifest_.entries.clear();
  sync_folder(temporary_);

  const std::string name = snapshot_name(*manifest_.step);
  const std::filesystem::path place = snapshots_ / name;
  const std::filesystem::path link = snapshots_ / temporary_name(kLatestName);
  // The new link is created before the snapshot becomes visible. After this only renames follow, and these succeed even
  // on a full disk.
  if (::symlink(name.c_str(), link.c_str()) != 0) throw io_error("create", link, errno);
  const std::filesystem::path replaced = put_in_place(temporary_, place);
  // Until the rename is on disk, a crash may undo it and bring the replaced snapshot back. So the destructor must not
  // remove that one.
  is_placed_ = true;
  sync_folder(snapshots_);
  const std::filesystem::path latest = snapshots_ / kLatestName;
  if (::rename(link.c_str(), latest.c_str()) != 0) throw io_error("rename", latest, errno);
  sync_folder(snapshots_);
  if (!replaced.empty()) remove_snapshot(replaced);
  return place;
}

WrittenFile SnapshotWriter::written_file(const std::string& file, const Write& write) {
  const std::filesystem::path path = temporary_ / file;
  auto out = open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (!out) throw io_error("create", path, errno);
  const WrittenFile written = write(out.get(), path);
  sync_file(out, path);
  close_file(std::move(out), path);
  bytes_ += written.bytes;
  return written;
}

WrittenFile SnapshotWriter::written_text(const std::string& file, std::string_view text) {
  return written_file(file, [&](int fd, const std::filesystem::path& path) {
    HashedFile out(fd, path);
    out.append(std::as_bytes(std::span(text)));
    return out.finished();
  });
}

}  // namespace lockstep
