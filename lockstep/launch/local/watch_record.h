// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "lockstep/base/log.h"
#include "lockstep/watch/rank_watch.h"

namespace lockstep {

/// Watches the ranks of a launcher. If a rank holds up the others, it writes so to the launcher's log and to the run
/// folder's `watch.jsonl`. It also answers `lockstep why` (docs/formats/run-folder.md).
///
/// A failure here must not end the ranks, so a line that cannot be written is left out.
class WatchRecord {
 public:
  /// If `run_dir` is empty, only the log gets the messages. `log` must outlive this object.
  WatchRecord(std::filesystem::path run_dir, const Log& log);

  /// Looks at all ranks once. Call it about once in RankWatch::kLookEvery.
  void look(const std::vector<WatchedRank>& ranks);

  /// The verdict of the last look.
  const std::optional<WatchVerdict>& verdict() const { return watch_.verdict(); }

 private:
  void answer_requests();

  std::filesystem::path run_dir_;
  const Log& log_;
  RankWatch watch_;
};

}  // namespace lockstep
