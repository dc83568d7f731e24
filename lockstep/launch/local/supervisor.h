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
#include "lockstep/launch/local/launcher.h"
#include "lockstep/launch/local/local_store.h"
#include "lockstep/launch/local/output.h"
#include "lockstep/launch/local/watch_record.h"
#include "lockstep/watch/page_reader.h"

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
    std::optional<SharedPage> page;  ///< What the rank does. Nothing if the system has no memory for it.
  };
  struct Ending {
    int rank = 0;
    int code = 0;    ///< As a shell reports it, 128 + n for signal n.
    int signal = 0;  ///< 0 if it exited.
  };

  void start(int rank, const sigset_t& mask);
  [[noreturn]] void become_rank(int rank, const sigset_t& mask, int out, int err);
  std::vector<std::string> variables_of(int rank) const;
  void wait_for_events();
  int milliseconds_to_wait() const;
  void look_at_ranks();
  void take_signals();
  static bool only_lost_peer(const Ending& ending);
  bool is_cause(const Ending& ending) const;
  void take_ended();
  void begin_grace(int signal);
  void name_overdue();
  void take_ending(Ending ending);
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
  std::vector<FileDescriptor> logs_;
  std::vector<OutputSource> sources_;
  OutputSink out_{1};
  OutputSink err_{2};
  std::vector<int> forwarded_;
  std::optional<Ending> failed_;
  bool is_stopped_ = false;                        // A rank ended with the code that says so.
  bool is_orphan_ = false;                         // Our parent is dead.
  bool is_named_ = false;                          // The failed rank was told of.
  int stop_signal_ = 0;                            // The first SIGTERM or SIGINT that was passed on.
  int overdue_ = 0;                                // The same, once ranks had to be killed because of it.
  std::optional<Clock::time_point> terminate_at_;  // Put off while all that failed have lost a peer.
  std::optional<Clock::time_point> kill_at_;
  Clock::time_point next_look_{};
  WatchRecord watch_;  // Who holds up the others.
};

}  // namespace lockstep
