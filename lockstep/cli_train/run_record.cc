// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/run_record.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/format/snapshot/snapshot_names.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Makes a new folder for the files of an abandoned run. If two starts happen in one second, the second one gets another
// name.
fs::path make_aside(const fs::path& run) {
  const auto first = run / ("abandoned-" + utc_stamp(std::chrono::system_clock::now()));
  auto aside = first;
  for (int i = 2; fs::exists(fs::symlink_status(aside)); ++i) aside = first.string() + "-" + std::to_string(i);
  make_folder(aside);
  return aside;
}

void move_to(const fs::path& from, const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(from, error))) return;
  fs::rename(from, folder / from.filename(), error);
  if (error) throw Error(ErrorKind::kIo, system_fact("move", from, error.value()), "choose another --run-dir");
}

void copy_to(const fs::path& from, const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(from, error)) return;
  fs::copy_file(from, folder / from.filename(), error);
  if (error) throw Error(ErrorKind::kIo, system_fact("copy", from, error.value()), "choose another --run-dir");
}

// Moves links that point to no snapshot. They are relative, so they are valid again beside the moved snapshots.
void move_broken_links(const fs::path& snapshots, const fs::path& aside) {
  std::error_code error;
  for (const char* name : {"best", "latest"}) {
    const auto link = snapshots / name;
    if (fs::is_symlink(link, error) && !fs::exists(link, error)) move_to(link, aside);
  }
}

std::vector<fs::path> event_files(const fs::path& run) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(run)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path());
  }
  return files;
}

}  // namespace

Verdict RunRecord::on(const RunStarted& event) {
  if (!is_auto_ && !event.resumed_from) {
    put_run_aside();
  } else if (!is_auto_) {
    put_aside_after(event.first_step);
  }
  // The result.json of the earlier start is not final any more, so it is removed. This start writes it again at its
  // end.
  const auto result = folder_.path() / "result.json";
  if (::unlink(result.c_str()) != 0 && errno != ENOENT) {
    throw Error(ErrorKind::kIo, system_fact("remove", result, errno), "choose another --run-dir");
  }
  write_whole(folder_.recipe(), text_.recipe);
  write_whole(folder_.layout(), text_.layout);
  return Verdict::kContinue;
}

void RunRecord::put_run_aside() {
  const auto run = folder_.path();
  const auto snapshots = listed_snapshots(folder_.snapshots());
  auto moved = event_files(run);
  for (const auto& snapshot : snapshots) moved.push_back(snapshot.path);
  for (const auto& file : {folder_.metrics(), run / "result.json", run / "trace"}) {
    if (fs::exists(file)) moved.push_back(file);
  }
  if (moved.empty()) return;
  const auto aside = make_aside(run);
  copy_to(folder_.recipe(), aside);
  copy_to(folder_.layout(), aside);
  // The links are moved first. If this start is killed here, no old link can lead to a snapshot of the new run.
  move_to(folder_.snapshots() / "best", aside);
  move_to(folder_.snapshots() / "latest", aside);
  move_to(folder_.snapshots() / kRunIdName, aside);
  for (const auto& each : moved) move_to(each, aside);
  sync_folder(run);
  log_.info("put the run before aside, with its " + std::to_string(snapshots.size()) + " snapshots, in " +
            aside.string());
}

void RunRecord::put_aside_after(std::int64_t step) {
  fs::path aside;
  std::size_t count = 0;
  for (const auto& snapshot : listed_snapshots(folder_.snapshots())) {
    if (snapshot.step <= step) continue;
    if (count++ == 0) aside = make_aside(folder_.path());
    move_to(snapshot.path, aside);
  }
  if (count == 0) return;
  move_broken_links(folder_.snapshots(), aside);
  // The lines after that step will be removed, so they are copied first.
  copy_to(folder_.metrics(), aside);
  sync_folder(folder_.path());
  log_.info("put " + std::to_string(count) + " snapshots of the run before aside in " + aside.string());
}

}  // namespace lockstep
