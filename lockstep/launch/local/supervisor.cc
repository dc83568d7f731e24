// SPDX-License-Identifier: Apache-2.0
// How one process runs the ranks of this machine. It has one thread and one poll(), over a signalfd, the ranks' pipes,
// and its own standard output and error. Each rank is a child in its own process group, and dies with this process
// (PR_SET_PDEATHSIG). The process is a subreaper, so helpers that a rank leaves behind become its children, and it can
// end them.
//
// States of the run:
//
// - Running. Output is passed on line by line. A signal to this process goes to the ranks, not to their groups.
// - Asked to stop. After SIGTERM or SIGINT the ranks have `stop_grace` to end by themselves. Then their groups are
//   killed.
// - Failed. The first rank that fails by itself is the cause. The other groups get SIGTERM, and after `grace` SIGKILL.
// - Cause awaited. A rank that lost a peer, or was told of another rank's error, may end before that rank does. For
//   `cause_grace` the cause may still follow.
// - Healing. A rank that died was started again. The run is in the state Running.
// - Over. No rank lives. The remaining descendants are killed, and the pipes are read to their end.
//
// If the parent dies, all groups are killed at once and no output is written, since nobody reads it. A sink without
// room is not read from, so a slow reader blocks the ranks and not this process's memory. Of several ranks found dead
// at once, those that ended because of another come last.
#include "lockstep/launch/local/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/launch/affinity.h"
#include "lockstep/launch/local/descendants.h"
#include "lockstep/launch/local/rank_variables.h"
#include "lockstep/launch/program.h"
#include "lockstep/launch/rendezvous.h"
#include "lockstep/launch/socket.h"

namespace lockstep {
namespace {

[[noreturn]] void fail(const std::string& what, int error_number) {
  throw Error(ErrorKind::kEnvironment, what + " failed: " + std::strerror(error_number),
              "check the limits on processes and open files (ulimit -u, ulimit -n)");
}

std::pair<FileDescriptor, FileDescriptor> opened_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe", errno);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace

LocalSupervisor::LocalSupervisor(const LocalJob& job, const Environment& env, std::string program, const Log& log)
    : job_(job),
      env_(env),
      log_(log),
      program_(std::move(program)),
      ranks_(static_cast<std::size_t>(job.ranks)),
      watch_(job.run_dir, log) {
  // A program other than Lockstep's binds the port itself, some seconds later.
  if (job_.owns_store) store_ = bind_socket("127.0.0.1");
  port_ = job_.owns_store ? port_of(store_) : unclaimed_port();
  threads_ = std::max(1, Topology().cores_of(cpus_of_process()) / job_.ranks);
  if (job_.log_folder.empty()) return;
  make_folder(job_.log_folder);
  for (int rank = 0; rank < job_.ranks; ++rank) open_rank_log(job_.log_folder, rank);
}

int LocalSupervisor::run(const sigset_t& mask, pid_t parent) {
  parent_ = parent;
  mask_ = mask;
  ::setpgid(0, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGHUP);
  sigset_t watched;
  ::sigprocmask(SIG_BLOCK, nullptr, &watched);
  signals_ = FileDescriptor(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) fail("signalfd", errno);
  ::signal(SIGPIPE, SIG_IGN);
  sources_.reserve(2 * ranks_.size());
  // The store's secret is created here and not before the fork, so that this process removes it.
  served_.emplace(job_.run_dir, port_, env_).prepare(store_, log_);
  if (job_.healing) healing_.emplace(*job_.healing);
  if (!job_.owns_store) watch_.announce();
  for (int rank = 0; rank < job_.ranks; ++rank) start(rank);
  served_->serve();
  store_.reset();
  // The parent may have died before prctl() asked for a signal at its death.
  if (::getppid() != parent_) end_as_orphan();
  while (live_ > 0 || out_.is_waiting() || err_.is_waiting()) {
    wait_for_events();
    if (live_ == 0) finish();
  }
  served_.reset();
  report();
  if (failed_) return failed_->code;
  return is_stopped_ ? kExitStopped : 0;
}

void LocalSupervisor::start(int rank) {
  auto [out_read, out_write] = opened_pipe();
  auto [err_read, err_write] = opened_pipe();
  Rank& slot = ranks_[static_cast<std::size_t>(rank)];
  try {
    slot.page.emplace();
  } catch (const Error& error) {
    log_.warning(std::string(error.fact()) + ": nobody will know what rank " + std::to_string(rank) + " does");
  }
  // If the rank is started again, the new process finds the memory of the one that died.
  if (healing_ && !slot.memory) slot.memory.emplace();
  FileDescriptor log = open_rank_log(job_.log_folder, rank);
  const pid_t pid = ::fork();
  if (pid < 0) {
    const int reason = errno;
    signal_all(SIGKILL, true);
    fail("starting rank " + std::to_string(rank), reason);
  }
  if (pid == 0) become_rank(rank, out_write.get(), err_write.get());
  // Set here as well as in the child, so that the group exists before anyone signals it.
  ::setpgid(pid, pid);
  slot.pid = pid;
  ++live_;
  for (const int fd : {out_read.get(), err_read.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  sources_.emplace_back(std::move(out_read), out_, slot.last, FileDescriptor());
  sources_.emplace_back(std::move(err_read), err_, slot.last, std::move(log));
}

void LocalSupervisor::become_rank(int rank, int out, int err) {
  const pid_t supervisor = ::getppid();
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Where Yama restricts ptrace, the supervisor's helpers may still read a rank's memory to find its Python lines.
  ::prctl(PR_SET_PTRACER, supervisor);
  if (::getppid() != supervisor) ::_exit(128 + SIGKILL);
  // Only rank 0 keeps standard input, and only if it is no terminal. A terminal stops a background process group that
  // reads from it, and several ranks cannot share one pipe.
  if (rank != 0 || ::isatty(STDIN_FILENO) == 1) {
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0) ::dup2(null, STDIN_FILENO);
  }
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (rank == 0 && store_) ::fcntl(store_.get(), F_SETFD, 0);
  if (rank == 0) {
    for (const auto& [name, fd] : job_.descriptors) ::fcntl(fd, F_SETFD, 0);
  }
  ::signal(SIGPIPE, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
  bind_near_device(env_, rank, job_.ranks);
  const auto variables = variables_of(rank);
  ::execvpe(program_.c_str(), exec_pointers(job_.command).data(), exec_pointers(variables).data());
  log_.error("'" + program_ + "' cannot be started: " + std::strerror(errno));
  ::_exit(exit_code(ErrorKind::kEnvironment));
}

std::vector<std::string> LocalSupervisor::variables_of(int rank) const {
  auto all = rank_variables(env_, {.rank = rank, .ranks = job_.ranks, .port = port_, .threads = threads_});
  served_->describe(all);
  if (rank == 0) {
    for (const auto& [name, fd] : job_.descriptors) all[name] = std::to_string(fd);
  }
  const auto& slot = ranks_[static_cast<std::size_t>(rank)];
  if (slot.page) all[kPageVariable] = slot.page->give();
  if (slot.memory) all[kRankMemoryVariable] = slot.memory->give();
  if (slot.generation > 0) all[kGenerationVariable] = std::to_string(slot.generation);
  if (rank == 0 && store_) all["LOCKSTEP_STORE_FD"] = std::to_string(store_.get());
  return exec_variables(all);
}

int LocalSupervisor::milliseconds_to_wait() const {
  auto next = terminate_at_ ? terminate_at_ : kill_at_;
  if (live_ > 0) next = std::min(next.value_or(next_look_), next_look_);
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

std::vector<SeenRank> LocalSupervisor::seen_ranks(bool with_ended) const {
  std::vector<SeenRank> seen;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const auto& rank = ranks_[i];
    const auto* const layout = rank.page ? &rank.page->layout() : nullptr;
    if (rank.pid > 0 || with_ended) seen.push_back({.rank = static_cast<int>(i), .pid = rank.pid, .layout = layout});
  }
  return seen;
}

void LocalSupervisor::look_at_ranks() {
  next_look_ = Clock::now() + RankWatch::kLookEvery;
  watch_.look(seen_ranks(/*with_ended=*/false));
  const auto verdict = watch_.verdict();
  if (failed_ || !verdict || verdict->kind != VerdictKind::kApart) return;
  // Otherwise the other ranks would wait in a collective until its time limit, half an hour by default, and then fail.
  log_.error("ranks that are in different collectives cannot go on, so all of them are stopped");
  failed_ = Ending{.rank = verdict->ranks.front(), .code = exit_code(ErrorKind::kPeer)};
  is_named_ = true;
  terminate();
}

void LocalSupervisor::wait_for_events() {
  std::vector<pollfd> polled = {{signals_.get(), POLLIN, 0},
                                {out_.is_waiting() ? out_.fd() : -1, POLLOUT, 0},
                                {err_.is_waiting() ? err_.fd() : -1, POLLOUT, 0}};
  // A negative descriptor is not polled. A stream without room at the reader would otherwise wake us endlessly.
  for (const auto& source : sources_) polled.push_back({source.sink().has_room() ? source.fd() : -1, POLLIN, 0});
  if (::poll(polled.data(), polled.size(), milliseconds_to_wait()) < 0 && errno != EINTR) fail("poll", errno);
  if (polled[1].revents != 0) out_.write_some();
  if (polled[2].revents != 0) err_.write_some();
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (polled[i + 3].revents != 0) sources_[i].read_some();
  }
  if (polled[0].revents != 0) take_signals();
  if (live_ > 0 && Clock::now() >= next_look_) look_at_ranks();
  if (terminate_at_ && Clock::now() >= *terminate_at_) terminate();
  if (kill_at_ && Clock::now() >= *kill_at_) {
    if (!failed_) name_overdue();
    signal_all(SIGKILL, true);
    kill_at_.reset();
  }
}

void LocalSupervisor::name_overdue() {
  overdue_ = stop_signal_;
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].pid > 0) names.push_back(std::to_string(rank));
  }
  log_.error(overdue_text(names, job_.ranks, job_.stop_grace, overdue_));
}

void LocalSupervisor::take_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      take_ended();
    } else if (signal == SIGHUP) {
      if (::getppid() != parent_) end_as_orphan();
    } else if (live_ == 0) {
      // All ranks have ended, and only output that nobody reads is left.
      out_.discard();
      err_.discard();
    } else {
      // Not to the rank's process group, since a program that stops in order still needs its helper processes.
      forwarded_.push_back(signal);
      signal_all(signal, false);
      // SIGCONT wakes a stopped rank. Otherwise it would not receive the signal, and the others would wait for it.
      if (signal == SIGTERM || signal == SIGINT) signal_all(SIGCONT, true);
      begin_grace(signal);
    }
  }
}

// A frozen rank never ends by itself, nor may one that waits for it. So both are killed after `stop_grace`.
void LocalSupervisor::begin_grace(int signal) {
  if (kill_at_ || (signal != SIGTERM && signal != SIGINT)) return;
  stop_signal_ = signal;
  kill_at_ = Clock::now() + job_.stop_grace;
}

// True if the rank failed by itself, before or after a SIGTERM of ours.
bool LocalSupervisor::is_cause(const Ending& ending) const {
  return !ending.is_of_another() && (terminate_at_ || (ending.signal == 0 && ending.code != 128 + SIGTERM));
}

void LocalSupervisor::take_ended() {
  std::vector<Ending> endings;
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) break;
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.pid == info.si_pid; });
    if (rank != ranks_.end()) {
      // The process group's id is not used again until its leader is reaped, so this reaches no other program.
      ::kill(-rank->pid, SIGKILL);
      rank->pid = -1;
      --live_;
      const bool by_itself = info.si_code == CLD_EXITED;
      const auto sight = rank->page ? rank->page->sight() : std::nullopt;
      endings.push_back({.rank = static_cast<int>(rank - ranks_.begin()),
                         .code = by_itself ? info.si_status : 128 + info.si_status,
                         .signal = by_itself ? 0 : info.si_status,
                         .told_by = by_itself && sight ? sight->told_by : std::nullopt});
    }
    ::waitpid(info.si_pid, nullptr, 0);
  }
  // Of several that are found dead at once, those that ended because of another are not the cause.
  std::stable_partition(endings.begin(), endings.end(), [&](const Ending& ending) { return !ending.is_of_another(); });
  for (const auto& ending : endings) take_ending(ending);
}

void LocalSupervisor::take_ending(Ending ending) {
  // The signal that asked for the stop ended the run. SIGKILL only enforced it.
  if (overdue_ != 0 && ending.signal == SIGKILL) ending.code = 128 + overdue_;
  if (ending.code == kExitStopped) is_stopped_ = true;
  has_finished_ = has_finished_ || ending.code == 0;
  if (ending.code == 0 || ending.code == kExitStopped) return;
  if (heals(ending)) return;
  if (failed_ && !(failed_->is_of_another() && is_cause(ending))) return;
  failed_ = ending;
  // The other rank may end later, while it is still taking itself down.
  if (ending.is_of_another()) {
    terminate_at_ = Clock::now() + job_.cause_grace;
  } else {
    terminate();
  }
}

// A dead rank can be replaced only while all other ranks live, since they give it the training's state.
bool LocalSupervisor::can_heal(const Ending& ending) const {
  if (!healing_ || failed_ || is_stopped_ || is_orphan_ || stop_signal_ != 0) return false;
  if (!Healing::is_curable(ending.code) || !served_->is_served()) return false;
  return std::ranges::all_of(ranks_, [](const Rank& each) { return each.memory && each.memory->is_armed(); }) &&
         live_ > 0 && !has_finished_;
}

bool LocalSupervisor::heals(const Ending& ending) {
  if (!can_heal(ending)) return false;
  const auto fact = ending.of(job_.ranks);
  if (const auto refusal = healing_->refusal(ending.rank, Clock::now())) {
    log_.error(fact + " and is not started again: " + *refusal);
    return false;
  }
  const auto place = static_cast<std::size_t>(ending.rank);
  watch_.tell_end(seen_ranks(/*with_ended=*/true)[place], ending.text() + ", and is started again");
  try {
    ranks_[place].generation = served_->next_generation();
    start(ending.rank);
  } catch (const Error& error) {
    log_.error(fact + " and cannot be started again: " + error.what());
    return false;
  }
  log_.warning(fact + "; it is started again, and the others give it the state from memory");
  return true;
}

// Prints the cause once it is known. If ranks are in different collectives, all get errors, and the first that ends
// need not be at fault.
void LocalSupervisor::tell_cause() {
  if (!failed_ || is_told_ || is_named_) return;
  is_told_ = true;
  // That rank's own end, with the same code, did not come in time.
  if (failed_->told_by && *failed_->told_by < job_.ranks) failed_->rank = *failed_->told_by;
  const auto seen = seen_ranks(/*with_ended=*/true);
  if (const auto apart = watch_.tell_ranks_apart(seen)) {
    failed_->rank = apart->ranks.front();
    is_named_ = true;
    return;
  }
  watch_.tell_end(seen[static_cast<std::size_t>(failed_->rank)], failed_->text());
}

void LocalSupervisor::terminate() {
  tell_cause();
  terminate_at_.reset();
  signal_all(SIGTERM, true);
  kill_at_ = Clock::now() + job_.grace;
}

void LocalSupervisor::end_as_orphan() {
  is_orphan_ = true;
  signal_all(SIGKILL, true);
  out_.discard();
  err_.discard();
}

void LocalSupervisor::signal_all(int signal, bool whole_group) {
  for (const auto& rank : ranks_) {
    if (rank.pid > 0) ::kill(whole_group ? -rank.pid : rank.pid, signal);
  }
}

void LocalSupervisor::finish() {
  if (overdue_ == 0) tell_cause();
  end_descendants({});
  terminate_at_.reset();
  kill_at_.reset();
  for (auto& source : sources_) source.read_rest();
}

void LocalSupervisor::report() const {
  // If the launcher was killed, nothing is printed: a message that nobody reads could block this process for ever.
  if (!failed_ || is_orphan_ || overdue_ != 0 || is_named_) return;
  const bool asked_for = std::find(forwarded_.begin(), forwarded_.end(), failed_->signal) != forwarded_.end();
  const auto& slot = ranks_[static_cast<std::size_t>(failed_->rank)];
  auto text = failed_->of(job_.ranks);
  if (const auto sight = slot.page ? slot.page->sight() : std::nullopt) text += " in " + describe(*sight);
  if (job_.ranks > 1) text += "; the others were stopped";
  if (!asked_for) text += last_words(slot.last.lines());
  log_.error(text);
}

}  // namespace lockstep
