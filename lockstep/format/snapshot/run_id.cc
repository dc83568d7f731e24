// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/snapshot/run_id.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/format/snapshot/manifest.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/format/snapshot/snapshot_names.h"

namespace lockstep {
namespace {

std::string text_or_empty(const std::filesystem::path& path) {
  try {
    return text_of_file(path);
  } catch (const Error&) {
    return {};
  }
}

std::string newest_named_run(const std::filesystem::path& snapshots) {
  const auto entries = listed_snapshots(snapshots);
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    try {
      const auto manifest = parsed_manifest(text_or_empty(entry->path / kManifestName), std::string(kManifestName));
      if (!manifest.run.empty()) return manifest.run;
    } catch (const Error&) {
      // This MANIFEST is damaged. The snapshot before it belongs to the same run, so look there.
    }
  }
  return {};
}

std::string new_run_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 2; ++i) id += hex64((std::uint64_t{random()} << 32U) | random());
  return id;
}

/// Writes the file under a temporary name first. If this process dies, the next writer removes it.
void write_run_id(const std::filesystem::path& snapshots, const std::string& id) {
  const auto made = snapshots / temporary_name(kRunIdName);
  auto file = open_file(made, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (!file) throw io_error("create", made, errno);
  const std::string text = id + "\n";
  write_all(file.get(), std::as_bytes(std::span(text)), made);
  sync_file(file, made);
  close_file(std::move(file), made);
  const auto place = snapshots / kRunIdName;
  if (::rename(made.c_str(), place.c_str()) != 0) throw io_error("rename", place, errno);
  sync_folder(snapshots);
}

}  // namespace

std::string run_id_of(const std::filesystem::path& snapshots) {
  auto text = text_or_empty(snapshots / kRunIdName);
  if (text.ends_with('\n')) text.pop_back();
  return is_run_id(text) ? text : std::string();
}

std::string ensure_run_id(const std::filesystem::path& snapshots) {
  auto id = run_id_of(snapshots);
  if (!id.empty()) return id;
  // A file that cannot be read may hold another id than the one that would replace it.
  const auto place = snapshots / kRunIdName;
  if (std::error_code ignored; std::filesystem::exists(place, ignored)) text_of_file(place);
  id = newest_named_run(snapshots);
  if (id.empty()) id = new_run_id();
  write_run_id(snapshots, id);
  return id;
}

}  // namespace lockstep
