// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/snapshot/snapshot_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/format/snapshot/snapshot_names.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::message_of;

fs::path write_snapshot(const fs::path& snapshots, std::int64_t step, const std::string& numbers) {
  const TensorEntry tensor{
      "weight", "U8", {static_cast<std::int64_t>(numbers.size())}, std::as_bytes(std::span(numbers))};
  SnapshotWriter writer(snapshots, step);
  writer.add_tensors("model.safetensors", std::span(&tensor, 1));
  writer.add_text("state.json", "{}\n");
  return writer.commit();
}

std::string numbers_in(const fs::path& snapshot) {
  const auto file = SafetensorsFile::open(snapshot / "model.safetensors");
  const auto bytes = file.find("weight")->bytes;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

/// Checks that every listed snapshot is intact, and that `latest` leads to one of them.
void expect_all_whole(const fs::path& snapshots) {
  for (const auto& entry : listed_snapshots(snapshots)) ASSERT_NO_THROW(verify_snapshot(entry.path));
  ASSERT_NO_THROW(verify_snapshot(fs::canonical(snapshots / "latest")));
}

class SnapshotWriterTest : public ::testing::Test {
 protected:
  fs::path snapshots() const { return folder_.path() / "snapshots"; }

  testing::TemporaryFolder folder_;
};

TEST_F(SnapshotWriterTest, MakesFolderAndLatestAndNothingElse) {
  EXPECT_EQ(write_snapshot(snapshots(), 7, "a"), snapshots() / "step-0000000007");
  EXPECT_EQ(write_snapshot(snapshots(), 8, "b"), snapshots() / "step-0000000008");
  EXPECT_EQ(names_in(snapshots()),
            (std::vector<std::string>{"latest", "run-id", "step-0000000007", "step-0000000008"}));
  EXPECT_EQ(fs::read_symlink(snapshots() / "latest"), "step-0000000008");
  EXPECT_EQ(names_in(snapshots() / "latest"),
            (std::vector<std::string>{"MANIFEST", "model.safetensors", "state.json"}));
  expect_all_whole(snapshots());
}

TEST_F(SnapshotWriterTest, FollowsTheUmask) {
  const mode_t before = ::umask(027);
  const fs::path snapshot = write_snapshot(snapshots(), 7, "a");
  ::umask(before);
  EXPECT_EQ(fs::status(snapshot).permissions(), fs::perms(0750));
  EXPECT_EQ(fs::status(snapshot / "model.safetensors").permissions(), fs::perms(0640));
}

TEST_F(SnapshotWriterTest, LeavesNothingWhereItWasNotCommitted) {
  write_snapshot(snapshots(), 7, "a");
  {
    SnapshotWriter writer(snapshots(), 8);
    writer.add_text("state.json", "{}");
    EXPECT_EQ(writer.bytes(), 2U);
  }
  EXPECT_EQ(names_in(snapshots()), (std::vector<std::string>{"latest", "run-id", "step-0000000007"}));
}

TEST_F(SnapshotWriterTest, AssertsNamesAndOrderOfCalls) {
  SnapshotWriter writer(snapshots(), 8);
  message_of(ErrorKind::kBug, [&] { writer.add_text("../state.json", ""); });
  message_of(ErrorKind::kBug, [&] { writer.add_text("MANIFEST", ""); });
  message_of(ErrorKind::kBug, [&] { writer.commit(); });
  message_of(ErrorKind::kBug, [&] { SnapshotWriter(snapshots(), -1); });
  message_of(ErrorKind::kBug, [&] { SnapshotWriter(snapshots(), 10'000'000'000); });
}

TEST_F(SnapshotWriterTest, SaysThatTheFolderCannotBeMade) {
  write_whole(folder_.path() / "file", "");
  EXPECT_HAS(message_of(ErrorKind::kIo, [&] { SnapshotWriter(folder_.path() / "file" / "snapshots", 1); }),
             "failed: Not a directory");
}

TEST_F(SnapshotWriterTest, ReplacesASnapshotOfTheSameStep) {
  write_snapshot(snapshots(), 7, "old");
  EXPECT_EQ(numbers_in(write_snapshot(snapshots(), 7, "new")), "new");
  EXPECT_EQ(names_in(snapshots()), (std::vector<std::string>{"latest", "run-id", "step-0000000007"}));
  expect_all_whole(snapshots());
}

TEST_F(SnapshotWriterTest, RemovesWhatDeadWritersLeftAndNothingOfLiveOnes) {
  write_snapshot(snapshots(), 1, "a");
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string own = temporary_name("step-0000000002");
  const std::string host = own.substr(0, own.find("-" + std::to_string(::getpid())));
  const std::string of_dead = host + "-" + std::to_string(dead) + ".step-0000000002";
  const std::string of_live = host + "-" + std::to_string(::getppid()) + ".step-0000000002";
  const std::string foreign_fresh = ".tmp-other-node.example-7.step-0000000002";
  const std::string foreign_old = ".tmp-other-node.example-8.step-0000000002";
  for (const auto& name : {own, of_dead, of_live, foreign_fresh, foreign_old}) {
    fs::create_directory(snapshots() / name);
    write_whole(snapshots() / name / "model.safetensors", "half");
  }
  fs::create_symlink("step-0000000002", snapshots() / (host + "-" + std::to_string(dead) + ".latest"));
  const auto two_hours_ago = fs::file_time_type::clock::now() - std::chrono::hours(2);
  fs::last_write_time(snapshots() / foreign_old / "model.safetensors", two_hours_ago);
  fs::last_write_time(snapshots() / foreign_old, two_hours_ago);
  // The folder's own time is old, but a file in the folder is being written.
  fs::last_write_time(snapshots() / foreign_fresh, two_hours_ago);

  write_snapshot(snapshots(), 3, "b");
  std::vector<std::string> wanted = {of_live, foreign_fresh, "latest", "run-id", "step-0000000001", "step-0000000003"};
  std::ranges::sort(wanted);
  EXPECT_EQ(names_in(snapshots()), wanted);
}

/// Runs `action` in a separate process. Returns the status of that process as waitpid() gives it.
int ended(const std::function<void()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      action();
    } catch (const Error& error) {
      ::_exit(exit_code(error.kind()));
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// From now on renameat2() fails as on a file system that cannot exchange two names.
void forbid_exchange() {
  std::array<sock_filter, 4> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(99);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(99);
}

TEST_F(SnapshotWriterTest, ReplacesWhereTwoNamesCannotBeExchanged) {
  write_snapshot(snapshots(), 7, "old");
  const int status = ended([&] {
    forbid_exchange();
    write_snapshot(snapshots(), 7, "new");
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 99) GTEST_SKIP() << "seccomp filters are not allowed here";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(numbers_in(snapshots() / "latest"), "new");
  EXPECT_EQ(names_in(snapshots()), (std::vector<std::string>{"latest", "run-id", "step-0000000007"}));
}

/// Runs `action` in a separate process, and kills the process (signal 9) just before its system call number `call`,
/// counted from 0. Returns false if the process ended before that.
bool was_killed_at(int call, const std::function<void()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(99);
    ::raise(SIGSTOP);
    action();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  // Each system call stops the child twice: before the call and after it.
  for (int stop = 0; WIFSTOPPED(status); ++stop) {
    if (stop == 2 * call + 1) ::kill(child, SIGKILL);
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  return WIFSIGNALED(status);
}

bool can_trace() {
  return ended([] {
           if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(99);
         }) == 0;
}

/// Kills a writer before each of its system calls in turn, and calls `check` on the files that are left.
void kill_at_every_call(const std::function<void()>& prepare, const std::function<void()>& action,
                        const std::function<void()>& check) {
  if (!can_trace()) GTEST_SKIP() << "ptrace is not allowed here";
  int call = 0;
  for (bool killed = true; killed; ++call) {
    prepare();
    killed = was_killed_at(call, action);
    check();
    if (::testing::Test::HasFatalFailure()) FAIL() << "killed before system call " << call;
  }
  EXPECT_GT(call, 15);
}

/// The test's files are in memory if possible. A killed process loses nothing that it wrote, so a real disk would not
/// show more.
class KilledSnapshotWriter : public ::testing::Test {
 protected:
  fs::path snapshots() const { return folder_.path() / "snapshots"; }

  testing::TemporaryFolder folder_{::access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir()};
};

TEST_F(KilledSnapshotWriter, AtAnySystemCallLeavesTheEarlierOneWhole) {
  write_snapshot(snapshots(), 7, "earlier");
  kill_at_every_call([&] { fs::remove_all(snapshots() / "step-0000000008"); },
                     [&] { write_snapshot(snapshots(), 8, "later"); },
                     [&] {
                       expect_all_whole(snapshots());
                       ASSERT_EQ(numbers_in(snapshots() / "step-0000000007"), "earlier");
                       write_snapshot(snapshots(), 7, "earlier");
                       for (const auto& name : names_in(snapshots())) ASSERT_FALSE(name.starts_with(".tmp-")) << name;
                     });
}

class KilledWhileReplacing : public KilledSnapshotWriter, public ::testing::WithParamInterface<bool> {};

TEST_P(KilledWhileReplacing, LeavesTheOldOrTheNewOne) {
  const bool can_exchange = GetParam();
  kill_at_every_call(
      [&] {
        fs::remove_all(snapshots());
        write_snapshot(snapshots(), 7, "old");
      },
      [&] {
        if (!can_exchange) forbid_exchange();
        write_snapshot(snapshots(), 7, "new");
      },
      [&] {
        for (const auto& entry : listed_snapshots(snapshots())) ASSERT_NO_THROW(verify_snapshot(entry.path));
        const auto newest = newest_whole_snapshot(snapshots(), [](const auto&, const auto&) {});
        ASSERT_TRUE(newest);
        ASSERT_TRUE(numbers_in(newest->path) == "old" || numbers_in(newest->path) == "new");
        if (can_exchange) expect_all_whole(snapshots());
      });
}

INSTANTIATE_TEST_SUITE_P(Snapshots, KilledWhileReplacing, ::testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "ByExchange" : "ThroughAThirdName");
});

TEST_F(KilledSnapshotWriter, WhilePruningLeavesNoHalfSnapshot) {
  kill_at_every_call(
      [&] {
        for (const std::int64_t step : {1, 2, 3}) {
          if (!fs::exists(snapshots() / snapshot_name(step))) write_snapshot(snapshots(), step, "numbers");
        }
        write_snapshot(snapshots(), 3, "numbers");
      },
      [&] { prune_snapshots(snapshots(), {.newest = 1}); }, [&] { expect_all_whole(snapshots()); });
}

TEST_F(SnapshotWriterTest, StoppedByALimitOnFileSizeItLeavesTheEarlierOneAlone) {
  write_snapshot(snapshots(), 7, "earlier");
  const auto before = names_in(snapshots());
  int refused = 0;
  for (rlim_t limit = 0; limit < 300; limit += 5) {
    const int status = ended([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit most{.rlim_cur = limit, .rlim_max = limit};
      ::setrlimit(RLIMIT_FSIZE, &most);
      write_snapshot(snapshots(), 8, "x");
    });
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 0) break;
    ASSERT_EQ(WEXITSTATUS(status), exit_code(ErrorKind::kIo));
    ASSERT_EQ(names_in(snapshots()), before);
    expect_all_whole(snapshots());
    ++refused;
  }
  EXPECT_GT(refused, 20);
  EXPECT_TRUE(fs::exists(snapshots() / "step-0000000008")) << "the limit grew until it was no longer in the way";
}

/// Mounts a new tmpfs that only this process sees. Returns false if mounting is not allowed.
bool mounted_tmpfs(const fs::path& place, const std::string& options) {
  fs::create_directories(place);
  return ::mount("tmpfs", place.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

TEST_F(SnapshotWriterTest, OnAFullDiskItLeavesTheEarlierOneAlone) {
  testing::in_child([&] {
    if (!testing::unshare_mounts()) testing::skip_child();
    std::vector<std::string> options;
    // The limits are chosen so that blocks run out within each of the files, and inodes at each file and at the link.
    for (int kib = 20; kib <= 44; kib += 4) options.push_back("size=" + std::to_string(kib) + "k");
    for (int inodes = 7; inodes <= 13; ++inodes) options.push_back("size=1m,nr_inodes=" + std::to_string(inodes));
    int refused = 0;
    for (const auto& option : options) {
      const fs::path disk = folder_.path() / "disk";
      if (!mounted_tmpfs(disk, option)) testing::skip_child();
      write_snapshot(disk, 7, "earlier");
      const auto before = names_in(disk);
      try {
        write_snapshot(disk, 8, std::string(10'000, 'x'));
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(error.kind(), ErrorKind::kIo);
        EXPECT_HAS(error.what(), "No space left on device\n  hint: free some space");
        EXPECT_EQ(names_in(disk), before) << option;
      }
      expect_all_whole(disk);
      ::umount2(disk.c_str(), MNT_DETACH);
    }
    EXPECT_GE(refused, 8);
    EXPECT_LT(refused, static_cast<int>(options.size()));
  });
}

}  // namespace
}  // namespace lockstep
