// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/inspect/inspection.h"
#include "lockstep/observe/requests.h"
#include "lockstep/observe/watch_journal.h"
#include "lockstep/watch/rank_watch.h"

namespace lockstep {

/// Watches the ranks of a launcher, and tells people. It says on the launcher's log and in the run folder's
/// `watch.jsonl` who holds up the others, and answers `lockstep why` (docs/formats/run-folder.md). Before it does so,
/// it looks at these ranks from outside, for some seconds at most.
///
/// A failure here must not end the ranks, so a line that cannot be written is left out.
class WatchRecord {
 public:
  /// `run_dir` may be empty. Then it is what rank 0's page says, and until it says so only the log hears. `log` must
  /// outlive this object.
  WatchRecord(std::filesystem::path run_dir, const Log& log);

  /// Takes a look. Call it about once in RankWatch::kLookEvery.
  void look(const std::vector<SeenRank>& ranks);

  /// The verdict of the last look. Nothing while ranks are looked at because of it.
  std::optional<WatchVerdict> verdict() const;

  /// Says how a rank has ended. `how` is "ended by signal 9 (Killed)". Its page tells where it was then.
  void tell_end(const SeenRank& rank, const std::string& how);

  /// Says which ranks are in another collective than the others, also such that have ended, and returns them. A rank
  /// that notices it by an error ends first, and is not always the one at fault. Nothing if none is.
  std::optional<WatchVerdict> tell_ranks_apart(const std::vector<SeenRank>& ranks);

 private:
  void tell();
  void answer_requests(const nlohmann::json& views);
  void begin_to_look(const std::vector<SeenRank>& ranks);

  std::filesystem::path run_dir_;
  const Log& log_;
  const std::string host_;
  RankWatch watch_;
  std::optional<WatchNews> news_{};  ///< To be told when the look has ended.
  std::vector<Request> asked_{};     ///< To be answered then.
  std::optional<Inspection> inspection_{};
};

}  // namespace lockstep
