// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/limited_child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/launch/program.h"

// The parent watches two things. The end of the pipe shows the child's end at once. The parent also asks by waitpid()
// whether the child has ended, since a descendant may keep the pipe open. pidfd_open() would make this simpler, but
// kernels before 5.3 lack it.

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{20};
constexpr milliseconds kLastLook{200};

/// Appends the bytes that are in the pipe. Returns false at the end of the pipe.
bool read_all(int pipe, std::string& said) {
  std::array<char, 4096> buffer{};
  while (true) {
    const auto got = ::read(pipe, buffer.data(), buffer.size());
    if (got > 0) {
      said.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return true;
    }
  }
}

bool has_ended(pid_t child, LimitedChild& end) {
  int status = 0;
  if (::waitpid(child, &status, WNOHANG) != child) return false;
  end.exit_code = shell_status(status);
  return true;
}

void wait_for(pid_t child, int pipe, Clock::time_point until, LimitedChild& end) {
  pollfd ready{pipe, POLLIN, 0};
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (left.count() <= 0) return;
    ::poll(&ready, 1, static_cast<int>(std::min(left, ready.fd < 0 ? milliseconds{1} : kLook).count()));
    if (ready.fd >= 0 && !read_all(pipe, end.said)) ready.fd = -1;
    if (!has_ended(child, end)) continue;
    read_all(pipe, end.said);
    return;
  }
}

}  // namespace

LimitedChild run_limited(const std::function<int(int pipe)>& work, milliseconds limit) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw process_error("no pipe can be made");
  FileDescriptor read(ends[0]);
  FileDescriptor write(ends[1]);
  ::fcntl(read.get(), F_SETFL, O_NONBLOCK);
  const auto until = Clock::now() + limit;
  const pid_t child = ::fork();
  if (child < 0) throw process_error("no process can be started");
  if (child == 0) {
    ::setpgid(0, 0);
    int code = 1;
    try {
      code = work(write.get());
    } catch (const std::exception&) {
    }
    ::_exit(code);
  }
  ::setpgid(child, child);  // Whichever comes first: the group must be there before it is killed.
  write.reset();
  LimitedChild end;
  wait_for(child, read.get(), until, end);
  if (end.exit_code) return end;
  ::kill(-child, SIGKILL);
  LimitedChild killed;
  wait_for(child, read.get(), Clock::now() + kLastLook, killed);
  end.said += killed.said;
  return end;
}

}  // namespace lockstep
