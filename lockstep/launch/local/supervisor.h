// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/file.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/healing.h"
#include "lockstep/launch/local/ending.h"
#include "lockstep/launch/local/launcher.h"
#include "lockstep/launch/local/local_store.h"
#include "lockstep/launch/local/output.h"
#include "lockstep/launch/local/watch_record.h"
#include "lockstep/watch/page_reader.h"
#include "lockstep/watch/rank_memory.h"

namespace lockstep {

/// The signals that are passed on to the ranks.
inline constexpr int kForwardedSignals[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};

/// Runs the ranks of one LocalJob and watches them, in a separate process. See run_local().
class LocalSupervisor {
 public:
  /// Opens the resources for the ranks, and starts nothing. `program` is the path of the job's command.
  ///
  /// Throws: Error(kIo) if a log file cannot be written, Error(kEnvironment) if there are too few descriptors.
  LocalSupervisor(const LocalJob& job, const Environment& env, std::string program, const Log& log);

  /// Starts the ranks, and passes on their output and the signals to this process. Returns the exit code when the last
  /// rank has ended. SIGCHLD, SIGHUP and the forwarded signals must be blocked. `mask` is the signal mask of the ranks.
  /// SIGHUP means that `parent` is dead.
  int run(const sigset_t& mask, pid_t parent);

 private:
  struct Rank {
    pid_t pid = -1;  ///< Also its process group. -1 once it has ended.
    LastLines last;
    std::optional<SharedPage> page;          ///< What the rank does. Nothing if the system has no memory for it.
    std::optional<SharedRankMemory> memory;  ///< Outlives the process, if ranks are started again.
    std::uint32_t generation = 0;            ///< Of the run, in which a process that was started again begins. Else 0.
  };

  void start(int rank);
  [[noreturn]] void become_rank(int rank, int out, int err);
  bool can_heal(const Ending& ending) const;
  bool heals(const Ending& ending);
  std::vector<std::string> variables_of(int rank) const;
  void wait_for_events();
  int milliseconds_to_wait() const;
  std::vector<SeenRank> seen_ranks(bool with_ended) const;
  void look_at_ranks();
  void take_signals();
  bool is_cause(const Ending& ending) const;
  void take_ended();
  void begin_grace(int signal);
  void name_overdue();
  void take_ending(Ending ending);
  void tell_cause();
  void terminate();
  void end_as_orphan();
  void signal_all(int signal, bool whole_group);
  void finish();
  void report() const;

  const LocalJob& job_;
  const Environment& env_;
  const Log& log_;
  std::string program_;
  FileDescriptor store_;
  std::optional<LocalStore> served_;
  FileDescriptor signals_;
  int port_ = 0;
  int threads_ = 1;  // Cores for each rank.
  pid_t parent_ = -1;
  int live_ = 0;
  std::vector<Rank> ranks_;
  std::vector<OutputSource> sources_;
  OutputSink out_{1};
  OutputSink err_{2};
  std::vector<int> forwarded_;
  sigset_t mask_{};  // Of the ranks.
  std::optional<Healing> healing_;
  std::optional<Ending> failed_;
  bool is_stopped_ = false;                        // A rank ended with the code that says so.
  bool has_finished_ = false;                      // A rank ended with 0.
  bool is_orphan_ = false;                         // Our parent is dead.
  bool is_told_ = false;                           // watch.jsonl says how it ended.
  bool is_named_ = false;                          // The failed rank was told of.
  int stop_signal_ = 0;                            // The first SIGTERM or SIGINT that was passed on.
  int overdue_ = 0;                                // The same, once ranks had to be killed because of it.
  std::optional<Clock::time_point> terminate_at_;  // Put off while all that failed have lost a peer.
  std::optional<Clock::time_point> kill_at_;
  Clock::time_point next_look_{};
  WatchRecord watch_;  // Who holds up the others.
};

}  // namespace lockstep
