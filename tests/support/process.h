// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::testing {

inline constexpr int kSkipped = 77;

/// Runs `body` in a process of its own, whose limits, mounts and networks are then nobody else's, and fails where it
/// does.
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
    GTEST_SKIP() << "this system lets root not have mounts, networks or limits of its own";
  }
  EXPECT_EQ(status, 0);
}

/// Called in such a process: what it needs cannot be had here.
[[noreturn]] inline void skip_child() { ::_exit(kSkipped); }

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

/// This process as another user who has nothing, until the end of the scope.
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

#define SKIP_WITHOUT_ROOT() \
  if (::geteuid() != 0) GTEST_SKIP() << "mounting and networks of one's own need root"
