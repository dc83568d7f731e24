// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/local/launcher.h"

namespace lockstep::testing {

/// A job whose ranks run a shell script.
inline LocalJob script(const std::string& text, int ranks) {
  LocalJob job;
  job.command = {"sh", "-c", text};
  job.ranks = ranks;
  return job;
}

/// True if a process has this id, also if it has ended and nobody has asked for its end.
inline bool is_alive(pid_t pid) { return ::kill(pid, 0) == 0; }

/// The launcher in a process of its own, as the command line has it, with what it writes at hand.
class Launch {
 public:
  explicit Launch(const LocalJob& job) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    std::fflush(nullptr);  // What is not written yet, the child would write too.
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(ends[1], STDERR_FILENO);
      ::_exit(run_local(job, Environment::of_process(), Log(2)));
    }
    ::close(ends[1]);
    output_ = FileDescriptor(ends[0]);
  }

  ~Launch() {
    if (is_reaped_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  pid_t pid() const { return pid_; }

  /// All that it has written once `count` lines are there, or it has ended.
  std::string lines(std::ptrdiff_t count) {
    char buffer[4096];
    ssize_t got = 0;
    while (ends_ < count && (got = ::read(output_.get(), buffer, sizeof buffer)) > 0) {
      text_.append(buffer, static_cast<std::size_t>(got));
      ends_ += std::count(buffer, buffer + got, '\n');
    }
    return text_;
  }
  /// Returns once the launcher's output is full. The test does not read the output meanwhile.
  void wait_until_full() const {
    int waiting = 0;
    while (::ioctl(output_.get(), FIONREAD, &waiting) == 0 && waiting < 60'000) ::poll(nullptr, 0, 1);
  }
  std::string all_lines() { return lines(PTRDIFF_MAX); }

  int exit_code() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    is_reaped_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  bool is_reaped_ = false;
  FileDescriptor output_;
  std::string text_;
  std::ptrdiff_t ends_ = 0;  ///< Of lines in text_.
};

/// The numbers in `text`, one a line.
inline std::vector<pid_t> pids(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& line : split(text, '\n')) {
    if (const auto pid = parsed_int<pid_t>(line)) found.push_back(*pid);
  }
  return found;
}

}  // namespace lockstep::testing
