// SPDX-License-Identifier: Apache-2.0
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

/// Gives `made` the name `place`. If a snapshot has that name already, readers see it until they see the new one. If
/// the file system cannot exchange two names, they see it as `place`.old in between.
///
/// Returns if the replaced one is now. Empty if there was none.
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
    // Hugging Face's loaders ask for this key.
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
  // Created before the snapshot becomes visible. From then on there are only renames, which a full disk does not stop.
  if (::symlink(name.c_str(), link.c_str()) != 0) throw io_error("create", link, errno);
  const std::filesystem::path replaced = put_in_place(temporary_, place);
  // Until this is on disk, a crash may bring the replaced snapshot back, so the destructor must not remove it.
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
