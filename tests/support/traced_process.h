// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::testing {

/// A system call of a traced process: before the call, or after the call with its result.
struct SystemCall {
  pid_t process = 0;
  std::uint64_t number = 0;
  std::array<std::uint64_t, 6> arguments{};
  std::int64_t result = 0;  ///< -errno if it failed.

  /// Returns the text to which argument `index` points.
  std::string text(std::size_t index) const {
    std::array<char, 512> bytes{};
    iovec local{.iov_base = bytes.data(), .iov_len = bytes.size() - 1};
    iovec remote{.iov_base = reinterpret_cast<void*>(arguments.at(index)), .iov_len = bytes.size() - 1};
    // If the text crosses into a page that cannot be read, it is returned up to there.
    if (::process_vm_readv(process, &local, 1, &remote, 1, 0) < 0) {
      remote.iov_len = local.iov_len = 4096 - arguments.at(index) % 4096;
      if (local.iov_len > bytes.size() - 1) local.iov_len = remote.iov_len = bytes.size() - 1;
      ::process_vm_readv(process, &local, 1, &remote, 1, 0);
    }
    return bytes.data();
  }
};

/// How a test changes a system call that is about to be made.
struct Interference {
  bool kills = false;                   ///< End the process with SIGKILL.
  int error = 0;                        ///< Let the call fail with this errno, unmade.
  std::optional<std::uint64_t> length;  ///< Let a writev() write only so much, of its first part.
};

/// Changes the length of the first part that a writev() will write. `before` gets the old length.
inline void set_length(const SystemCall& call, std::uint64_t length, std::uint64_t& before) {
  iovec first{};
  const iovec local{.iov_base = &first, .iov_len = sizeof first};
  const iovec remote{.iov_base = reinterpret_cast<void*>(call.arguments[1]), .iov_len = sizeof first};
  ::process_vm_readv(call.process, &local, 1, &remote, 1, 0);
  before = first.iov_len;
  first.iov_len = std::min<std::uint64_t>(length, 1 + before / 2);
  ::process_vm_writev(call.process, &local, 1, &remote, 1, 0);
}

inline void restore_length(const SystemCall& call, std::uint64_t length) {
  const iovec local{.iov_base = &length, .iov_len = sizeof length};
  const iovec remote{.iov_base = reinterpret_cast<void*>(call.arguments[1] + offsetof(iovec, iov_len)),
                     .iov_len = sizeof length};
  ::process_vm_writev(call.process, &local, 1, &remote, 1, 0);
}

/// Runs `action` in a separate process, where an Error ends it with its exit code. `before` is called before each
/// system call, and `after` after it. Returns waitpid()'s status. The exit status is 99 if tracing is not allowed.
inline int traced(const std::function<void()>& action, const std::function<Interference(const SystemCall&)>& before,
                  const std::function<void(const SystemCall&)>& after = {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(99);
    ::raise(SIGSTOP);
    try {
      action();
    } catch (const Error& error) {
      ::_exit(exit_code(error.kind()));
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSTOPPED(status)) ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  SystemCall call{.process = child};
  Interference now;
  std::uint64_t whole = 0;
  while (WIFSTOPPED(status)) {
    __ptrace_syscall_info info{};
    int signal = 0;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
      signal = WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
    } else if (::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) > 0) {
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        call.number = info.entry.nr;
        std::copy(std::begin(info.entry.args), std::end(info.entry.args), call.arguments.begin());
        call.result = 0;
        now = before(call);
        if (now.kills) ::kill(child, SIGKILL);
        user_regs_struct registers{};
        ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
        if (now.error != 0) registers.orig_rax = ~0ULL;
        if (now.length) {
          registers.rdx = 1;
          set_length(call, *now.length, whole);
        }
        if (now.error != 0 || now.length) ::ptrace(PTRACE_SETREGS, child, nullptr, &registers);
      } else if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
        call.result = info.exit.rval;
        if (now.error != 0) {
          user_regs_struct registers{};
          ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
          registers.rax = static_cast<std::uint64_t>(-now.error);
          ::ptrace(PTRACE_SETREGS, child, nullptr, &registers);
          call.result = -now.error;
        }
        if (now.length) restore_length(call, whole);
        if (after) after(call);
      }
    }
    ::ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    ::waitpid(child, &status, 0);
  }
  return status;
}

/// True if this system allows a process to trace its child in this way.
inline bool can_trace() {
#if defined(__x86_64__)
  const int status = traced([] {}, [](const auto&) { return Interference{}; });
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
#else
  return false;
#endif
}

}  // namespace lockstep::testing
