// SPDX-License-Identifier: Apache-2.0
// How a parent attends one program. It forks the program with pipes for standard error and, with a log, for standard
// output. One thread polls a signalfd and the pipes. It copies what arrives to its own streams and the log, and keeps
// the last lines.
//
// Signals that ask to stop are blocked here, and read from the signalfd. A signal is passed on only if the program did
// not get it anyway. Slurm signals all processes of a step or its tasks alone, depending on its process tracker. A
// terminal interrupts its whole foreground group. A signal from before the fork reached this process alone, and is
// passed on always.
//
// The program ends with the parent (PR_SET_PDEATHSIG), and the parent returns when the program has ended, even if
// helpers keep a pipe open. After that, late signals are ignored, since they were meant for the program, which has
// already obeyed them.
#include "lockstep/launch/attended.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <deque>
#include <exception>
#include <optional>
#include <string_view>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/launch/program.h"

namespace lockstep {
namespace {

constexpr std::array kAskingToStop = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT};

/// True if this process must pass the signal on to its child. False if whoever sent the signal to this process sends it
/// to the child too.
///
/// Slurm's process trackers differ. The one that uses cgroups signals a step's tasks but not their children. The others
/// signal all processes of the step. Other launchers signal the processes that they started. A terminal interrupts its
/// whole foreground group, and a child that gets a second SIGINT ends at once.
bool must_be_passed_on(int signal, const Environment& env) {
  if (env.get("SLURM_STEP_ID")) return text_or_nothing("/proc/self/cgroup").find("/step_") != std::string::npos;
  return signal != SIGINT;
}

/// The last lines of a stream. A line ends with \n, or with \r as a progress bar's do.
class LastLines {
 public:
  void push(std::string_view text) {
    for (const char c : text) {
      if (c == '\n' || c == '\r') {
        end_line();
      } else if (line_.size() < kLongest) {
        line_ += c;
      }
    }
  }
  std::vector<std::string> take() {
    end_line();
    return {lines_.begin(), lines_.end()};
  }

 private:
  static constexpr std::size_t kLines = 100;  // A launcher's own words about a failed rank are many.
  static constexpr std::size_t kLongest = 500;

  void end_line() {
    if (line_.find_first_not_of(" \t") != std::string::npos) lines_.push_back(line_);
    if (lines_.size() > kLines) lines_.pop_front();
    line_.clear();
  }

  std::deque<std::string> lines_;
  std::string line_;
};

/// Writes the text, and stops without an error if nobody reads it. A log that cannot be written must not end the
/// program.
void write_out(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

/// A stream of the child's. Output from the pipe is copied to this process's own stream, and to `log` if there is one.
class ChildStream {
 public:
  explicit ChildStream(int own, int log) : own_(own), log_(log) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw process_error("no pipe can be made");
    read_ = FileDescriptor(ends[0]);
    write_ = FileDescriptor(ends[1]);
    ::fcntl(read_.get(), F_SETFL, O_NONBLOCK);
  }

  void become_the_childs() const { ::dup2(write_.get(), own_); }
  void close_writer() { write_.reset(); }
  int fd() const { return read_.get(); }

  /// Copies the output that is available now. At the end of the stream it closes the pipe.
  void pass_on() {
    std::array<char, 1 << 14> buffer{};
    while (read_) {
      const auto got = ::read(read_.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return read_.reset();
      const std::string_view text(buffer.data(), static_cast<std::size_t>(got));
      last_.push(text);
      write_out(own_, text);
      if (log_ >= 0) write_out(log_, text);
    }
  }
  std::vector<std::string> last() { return last_.take(); }

 private:
  int own_;
  int log_;  ///< Below 0 for none.
  FileDescriptor read_;
  FileDescriptor write_;
  LastLines last_;
};

/// True once an attended program has ended in this process.
bool ignores_signals = false;

[[noreturn]] void become_child(const std::string& program, const std::vector<std::string>& command,
                               const Environment& env) {
  try {
    become(program, command, env);
  } catch (const std::exception& error) {
    const std::string text = std::string("lockstep: error: ") + error.what() + "\n";
    [[maybe_unused]] const auto said = ::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(exit_code(ErrorKind::kEnvironment));
  }
}

/// The child's standard error and, if it is kept, its standard output.
struct ChildStreams {
  explicit ChildStreams(int log) : errors(STDERR_FILENO, log) {
    if (log >= 0) output.emplace(STDOUT_FILENO, log);
  }
  void pass_on() {
    if (output) output->pass_on();
    errors.pass_on();
  }

  ChildStream errors;
  std::optional<ChildStream> output;
};

/// Passes signals and output on until the child has ended. Returns its status.
int wait_for_end(pid_t child, int signals, ChildStreams& streams, const Environment& env,
                 const std::function<void(pid_t)>& each_second) {
  constexpr std::chrono::milliseconds kSecond{1000};
  auto next = Clock::now() + kSecond;
  // A signal that came before the child existed has reached this process only, so it is passed on.
  bool is_first = true;
  int status = 0;
  while (true) {
    signalfd_siginfo info{};
    while (::read(signals, &info, sizeof info) == sizeof info) {
      const auto signal = static_cast<int>(info.ssi_signo);
      if (signal != SIGCHLD && (is_first || must_be_passed_on(signal, env))) ::kill(child, signal);
    }
    is_first = false;
    const auto ended = ::waitpid(child, &status, WNOHANG);
    streams.pass_on();
    if (ended == child || (ended < 0 && errno != EINTR)) return status;
    // poll() ignores an entry whose descriptor is negative.
    std::array<pollfd, 3> events = {pollfd{signals, POLLIN, 0}, pollfd{streams.errors.fd(), POLLIN, 0},
                                    pollfd{streams.output ? streams.output->fd() : -1, POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    ::poll(events.data(), events.size(), each_second ? std::max(0, static_cast<int>(left.count())) : -1);
    if (!each_second || Clock::now() < next) continue;
    each_second(child);
    next = Clock::now() + kSecond;
  }
}

}  // namespace

ProgramEnd attended(const std::string& program, const std::vector<std::string>& command, const Environment& env,
                    int log, const std::function<void(pid_t)>& each_second) {
  sigset_t watched;
  sigset_t before;
  ::sigemptyset(&watched);
  ::sigaddset(&watched, SIGCHLD);
  for (const int signal : kAskingToStop) ::sigaddset(&watched, signal);
  ChildStreams streams(log);
  const FileDescriptor signals(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) throw process_error("signals cannot be watched");
  ::sigprocmask(SIG_BLOCK, &watched, &before);
  const pid_t child = ::fork();
  if (child < 0) {
    const int reason = errno;
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    errno = reason;
    throw process_error("no process can be started");
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Where Yama restricts ptrace, the parent's helpers may still read the program's memory to find its Python lines.
    ::prctl(PR_SET_PTRACER, ::getppid());
    if (ignores_signals) {
      for (const int signal : kAskingToStop) ::signal(signal, SIG_DFL);
    }
    streams.errors.become_the_childs();
    if (streams.output) streams.output->become_the_childs();
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    become_child(program, command, env);
  }
  streams.errors.close_writer();
  if (streams.output) streams.output->close_writer();
  const auto broken_pipe = ::signal(SIGPIPE, SIG_IGN);
  const int status = wait_for_end(child, signals.get(), streams, env, each_second);
  ::signal(SIGPIPE, broken_pipe);
  // A stop signal can reach this process a moment after it reached the child. The child has obeyed it and has ended. It
  // must not end this process too.
  for (const int signal : kAskingToStop) ::signal(signal, SIG_IGN);
  ignores_signals = true;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return {.code = shell_status(status),
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .last = streams.errors.last()};
}

}  // namespace lockstep
