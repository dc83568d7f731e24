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
#include "lockstep/observe/watch_parent.h"
#include "lockstep/watch/rank_watch.h"

namespace lockstep {

/// Watches the ranks of a launcher. It writes to the launcher's log and to the run folder's `watch.jsonl` which rank
/// holds up the others, and answers `lockstep why` (docs/formats/run-folder.md). Before it does either, it looks at
/// these ranks from outside, for some seconds at most.
///
/// A failure here must not end the ranks, so a line that cannot be written is left out.
class WatchRecord {
 public:
  /// If `run_dir` is empty, the folder is the one that rank 0's page names. Until the page names one, messages go to
  /// the log only. `log` must outlive this object.
  WatchRecord(std::filesystem::path run_dir, const Log& log);

  /// Records in the run folder that this process answers `lockstep why`. Call it for ranks that take no run.lock. If
  /// another process already does so, as in a job, this one leaves the folder alone.
  void announce();

  /// Takes a look. Call it about once in RankWatch::kLookEvery.
  void look(const std::vector<SeenRank>& ranks);

  /// Returns the verdict of the last look. Returns nothing while its ranks are being looked at from outside.
  std::optional<WatchVerdict> verdict() const;

  /// Reports how a rank has ended, and from its page, in which phase. `how` is such as "ended by signal 9 (Killed)".
  void tell_end(const SeenRank& rank, const std::string& how);

  /// Reports which ranks are in another collective than the others, and returns the verdict, or nothing if there is no
  /// such rank. Ranks that have ended count too: the rank that ends first with an error is not always at fault.
  std::optional<WatchVerdict> tell_ranks_apart(const std::vector<SeenRank>& ranks);

 private:
  void tell();
  void answer_requests(const nlohmann::json& views);
  void begin_to_look(const std::vector<SeenRank>& ranks);

  std::filesystem::path run_dir_;
  const Log& log_;
  const std::string host_;
  RankWatch watch_;
  std::optional<WatchNews> news_{};  ///< To be reported when the look from outside has ended.
  std::vector<Request> asked_{};     ///< To be answered then.
  std::optional<Inspection> inspection_{};
  std::optional<WatchParent> parent_{};
};

}  // namespace lockstep
