// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace lockstep::testing {

inline constexpr int kSkipped = 77;

/// Runs `body` in a child process, so that it can change limits, mounts and networks. The test fails if `body` fails.
template <typename Body>
void in_child(Body body) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    body();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) {
    GTEST_SKIP() << "this system gives a process no mounts, networks or limits of its own";
  }
  EXPECT_EQ(status, 0);
}

/// Call this in the child process if this system does not allow what the test needs. The test is then skipped.
[[noreturn]] inline void skip_child() { ::_exit(kSkipped); }

/// Writes a short text to a file of the kernel, such as one in /proc. Returns true if the kernel accepted it.
inline bool wrote(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  const bool is_written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) ::close(fd);
  return is_written;
}

/// Gives this process namespaces of its own, such as CLONE_NEWNS and CLONE_NEWNET. For that an ordinary user becomes
/// root in a user namespace. Returns true if the system allowed it.
inline bool unshare_as_root(int namespaces) {
  if (::geteuid() == 0) return ::unshare(namespaces) == 0;
  const auto user = std::to_string(::geteuid());
  const auto group = std::to_string(::getegid());
  return ::unshare(CLONE_NEWUSER | namespaces) == 0 && wrote("/proc/self/setgroups", "deny") &&
         wrote("/proc/self/uid_map", "0 " + user + " 1") && wrote("/proc/self/gid_map", "0 " + group + " 1");
}

/// Gives this process mounts of its own, which nobody else sees. Returns false if the system refuses, as it does in a
/// chroot whose root is no mount point.
inline bool unshare_mounts() {
  return unshare_as_root(CLONE_NEWNS) && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// Sets this process's umask until the end of the scope.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t before_;
};

/// Makes this process run as another user without any rights, until the end of the scope.
class AsNobody {
 public:
  AsNobody() : was_root_(::geteuid() == 0) {
    if (was_root_) {
      EXPECT_EQ(::seteuid(65534), 0);
    }
  }
  ~AsNobody() {
    if (was_root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  bool was_root_;
};

}  // namespace lockstep::testing
