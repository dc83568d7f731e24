// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/run_record.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/format/snapshot/snapshot_folder.h"

namespace lockstep {
namespace {

void move_to(const std::filesystem::path& from, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::rename(from, folder / from.filename(), error);
  if (error) throw Error(ErrorKind::kIo, system_fact("move", from, error.value()), "choose another --run-dir");
}

}  // namespace

Verdict RunRecord::on(const RunStarted& event) {
  if (!is_auto_) put_aside_after(event.first_step, !event.resumed_from.has_value());
  // What was final before is so no longer; the end of this start writes it again.
  const auto result = folder_.path() / "result.json";
  if (::unlink(result.c_str()) != 0 && errno != ENOENT) {
    throw Error(ErrorKind::kIo, system_fact("remove", result, errno), "choose another --run-dir");
  }
  write_whole(folder_.recipe(), text_.recipe);
  write_whole(folder_.layout(), text_.layout);
  return Verdict::kContinue;
}

void RunRecord::put_aside_after(std::int64_t step, bool is_anew) {
  const auto aside = folder_.path() / ("abandoned-" + utc_stamp(std::chrono::system_clock::now()));
  std::size_t count = 0;
  for (const auto& snapshot : listed_snapshots(folder_.snapshots())) {
    if (!is_anew && snapshot.step <= step) continue;
    if (count++ == 0) make_folder(aside);
    move_to(snapshot.path, aside);
  }
  if (count == 0) return;
  sync_folder(folder_.path());
  log_.info("put " + std::to_string(count) + " snapshots of the run before aside in " + aside.string());
}

}  // namespace lockstep
