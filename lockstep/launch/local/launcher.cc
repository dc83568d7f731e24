// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/launcher.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>

#include "lockstep/base/error.h"
#include "lockstep/launch/local/descendants.h"
#include "lockstep/launch/local/supervisor.h"
#include "lockstep/launch/program.h"

namespace lockstep {
namespace {

/// Blocks the signals that a launcher waits for, and restores the old mask at the end.
class BlockedSignals {
 public:
  BlockedSignals() {
    ::sigemptyset(&blocked_);
    for (const int signal : kForwardedSignals) ::sigaddset(&blocked_, signal);
    ::sigaddset(&blocked_, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &blocked_, &before_);
  }
  ~BlockedSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  const sigset_t& before() const { return before_; }
  int next() const { return ::sigwaitinfo(&blocked_, nullptr); }

 private:
  sigset_t blocked_{};
  sigset_t before_{};
};

/// Runs the supervisor in a separate process. If somebody kills the process that the user started by kill -9, the
/// supervisor still ends the ranks and their children. The kernel's death signal would reach the ranks only.
[[noreturn]] void supervise(LocalSupervisor& supervisor, const sigset_t& mask, pid_t parent, const Log& log) {
  int code = exit_code(ErrorKind::kBug);
  try {
    sigset_t hangup;
    ::sigemptyset(&hangup);
    ::sigaddset(&hangup, SIGHUP);
    ::sigprocmask(SIG_BLOCK, &hangup, nullptr);
    code = supervisor.run(mask, parent);
  } catch (const Error& error) {
    log.error(error.what());
    code = exit_code(error.kind());
    end_descendants({});
  }
  ::_exit(code);
}

int status_of(pid_t supervisor, const BlockedSignals& signals) {
  int status = 0;
  while (::waitpid(supervisor, &status, WNOHANG) == 0) {
    const int signal = signals.next();
    if (signal > 0 && signal != SIGCHLD) ::kill(supervisor, signal);
  }
  return status;
}

}  // namespace

std::chrono::milliseconds stop_grace(const Environment& env) {
  const auto seconds = env.get_int("LOCKSTEP_STOP_GRACE");
  return seconds ? std::chrono::seconds(*seconds) : LocalJob().stop_grace;
}

int run_local(const LocalJob& job, const Environment& env, const Log& log) {
  if (job.ranks < 1) {
    throw Error(ErrorKind::kUsage, "the number of ranks is " + std::to_string(job.ranks) + ", want at least 1",
                "give -n a number from 1 up");
  }
  if (job.command.empty() || job.command.front().empty()) {
    throw Error(ErrorKind::kUsage, "no program was given",
                "write it after two dashes: lockstep launch -n 2 -- program");
  }
  std::optional<LocalSupervisor> supervisor(std::in_place, job, env, found_program(job.command.front(), env), log);
  const std::vector<pid_t> spare = children_of_this_process();
  int was_subreaper = 0;
  ::prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const BlockedSignals signals;
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    throw Error(ErrorKind::kEnvironment, std::string("fork failed: ") + std::strerror(errno),
                "check the limit on processes (ulimit -u)");
  }
  if (child == 0) supervise(*supervisor, signals.before(), self, log);
  supervisor.reset();
  const int status = status_of(child, signals);
  end_descendants(spare);
  ::prctl(PR_SET_CHILD_SUBREAPER, was_subreaper);
  return shell_status(status);
}

}  // namespace lockstep
