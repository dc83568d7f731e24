// SPDX-License-Identifier: Apache-2.0
#include "lockstep/agent/left_overs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "lockstep/telemetry/task_register.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::seconds;

class LeftOvers : public ::testing::Test {
 protected:
  /// Makes the folder of a job that was left behind this long ago.
  fs::path left(const std::string& name, hours ago, mode_t mode = 0700) {
    const auto path = parent_.path() / name;
    fs::create_directory(path);
    fs::create_directory(path / "caches");
    enter_task({.rank = 0, .local_rank = 0, .pid = 1, .started = 1}, path);  // Not the first process of this system.
    ::chmod(path.c_str(), mode);
    make_old(path, ago);
    return path;
  }
  static void make_old(const fs::path& path, hours ago) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - ago);
  }

  testing::TemporaryFolder parent_;
  const fs::path own_ = parent_.path() / "lockstep-7-42.0-0";
};

TEST_F(LeftOvers, OfJobsThatWereKilledGo) {
  left("lockstep-7-42.0-0", hours(9));
  const auto killed = left("lockstep-7-41.0-0", hours(2));
  const auto fresh = left("lockstep-7-40.0-0", hours(0));
  const auto other = left("lockstep-77-41.0-0", hours(2));
  const auto stage = left("lockstep-stage-41", hours(2));
  const auto open = left("lockstep-7-39.0-0", hours(2), 0755);
  EXPECT_EQ(remove_left_overs(own_), 1);
  EXPECT_FALSE(fs::exists(killed));
  for (const auto& each : {own_, fresh, other, stage, open}) EXPECT_TRUE(fs::exists(each)) << each;
}

TEST_F(LeftOvers, AreNoneWhereAProgramStillHasTheMark) {
  const auto used = left("lockstep-7-41.0-0", hours(30));
  std::array<int, 2> marked{};
  ASSERT_EQ(::pipe2(marked.data(), O_CLOEXEC), 0);
  const FileDescriptor reader(marked[0]);
  FileDescriptor writer(marked[1]);
  const pid_t program = ::fork();
  if (program == 0) {
    const auto mark = mark_in_use(used);
    ::execlp("sleep", "sleep", "600", nullptr);
    ::_exit(1);
  }
  // The child marks the folder and then becomes the program. At that moment the pipe is closed.
  writer.reset();
  char nothing = 0;
  EXPECT_EQ(::read(reader.get(), &nothing, 1), 0);
  EXPECT_EQ(remove_left_overs(own_), 0);
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  EXPECT_EQ(remove_left_overs(own_), 1);
}

TEST_F(LeftOvers, AreNoneWhereATaskStillLives) {
  const auto used = left("lockstep-7-41.0-0", hours(30));
  enter_task(this_task(1, 1), used);
  make_old(used, hours(30));
  EXPECT_EQ(remove_left_overs(own_), 0);
}

TEST_F(LeftOvers, AreNoLinks) {
  const testing::TemporaryFolder elsewhere;
  fs::create_directory_symlink(elsewhere.path(), parent_.path() / "lockstep-7-41.0-0");
  EXPECT_EQ(remove_left_overs(own_, seconds(0)), 0);
  EXPECT_TRUE(fs::exists(elsewhere.path()));
}

}  // namespace
}  // namespace lockstep
