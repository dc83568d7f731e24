// SPDX-License-Identifier: Apache-2.0
// Tests a save whose system calls fail, one after the other, in each of the ways in which disks and network file
// systems fail. The save must end with an error, or must have saved. Earlier snapshots must be intact in either case.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <set>

#include "lockstep/base/file.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/format/snapshot/snapshot_writer.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/traced_process.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::Interference;
using testing::SystemCall;

void write_snapshot(const fs::path& snapshots, std::int64_t step, const std::string& numbers) {
  const TensorEntry tensor{
      "weight", "U8", {static_cast<std::int64_t>(numbers.size())}, std::as_bytes(std::span(numbers))};
  SnapshotWriter writer(snapshots, step);
  writer.add_tensors("model.safetensors", std::span(&tensor, 1));
  writer.add_text("state.json", "{}\n");
  const auto written = writer.commit();
  mark_best(written);
  try {
    prune_snapshots(snapshots, {.newest = 2}, written);
  } catch (const Error&) {  // The snapshot is saved; the next one tries again.
  }
}

const std::map<std::uint64_t, const char*>& changing_calls() {
  static const std::map<std::uint64_t, const char*> calls = {
      {SYS_openat, "openat"},     {SYS_write, "write"},         {SYS_writev, "writev"}, {SYS_fsync, "fsync"},
      {SYS_close, "close"},       {SYS_rename, "rename"},       {SYS_mkdir, "mkdir"},   {SYS_renameat2, "renameat2"},
      {SYS_symlink, "symlink"},   {SYS_fdatasync, "fdatasync"}, {SYS_unlink, "unlink"}, {SYS_unlinkat, "unlinkat"},
      {SYS_pwrite64, "pwrite64"}, {SYS_ftruncate, "ftruncate"}, {SYS_rmdir, "rmdir"},   {SYS_fallocate, "fallocate"},
  };
  return calls;
}

class DiskFault : public ::testing::Test {
 protected:
  DiskFault() : DiskFault(::access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir(), 9000) {}
  DiskFault(const std::string& place, std::size_t bytes) : folder_(place), bytes_(bytes) {}

  void SetUp() override {
    if (!testing::can_trace()) GTEST_SKIP() << "ptrace is not allowed here";
  }
  fs::path snapshots() const { return folder_.path() / "snapshots"; }

  void begin() const {
    fs::remove_all(snapshots());
    for (const std::int64_t step : {1, 2}) write_snapshot(snapshots(), step, "earlier " + std::to_string(step));
  }

  // Checks that every listed snapshot is intact, and that the links lead to intact snapshots.
  void expect_sound(int status, const std::string& what) const {
    ASSERT_TRUE(WIFEXITED(status)) << what;
    const bool says_saved = WEXITSTATUS(status) == 0;
    if (!says_saved) ASSERT_EQ(WEXITSTATUS(status), exit_code(ErrorKind::kIo)) << what;
    for (const auto& entry : listed_snapshots(snapshots())) ASSERT_NO_THROW(verify_snapshot(entry.path)) << what;
    for (const auto* link : {"latest", "best"})
      ASSERT_NO_THROW(verify_snapshot(fs::canonical(snapshots() / link))) << what;
    if (says_saved) ASSERT_EQ(fs::read_symlink(snapshots() / "latest"), "step-0000000003") << what;
    // A save that failed in its last step may be visible.
    const bool shows = fs::exists(snapshots() / "step-0000000003");
    if (!shows) ASSERT_TRUE(fs::exists(snapshots() / "step-0000000002")) << what;
  }

  // Makes each system call of the save fail in turn. Returns the number of calls tried.
  int fail_each(const std::function<std::optional<Interference>(const SystemCall&)>& interference,
                const std::string& name, std::map<int, std::string>& endings) const {
    for (int n = 0;; ++n) {
      begin();
      int seen = 0;
      std::string what;
      const int status = testing::traced([&] { write_snapshot(snapshots(), 3, std::string(bytes_, 'x')); },
                                         [&](const SystemCall& call) -> Interference {
                                           const auto it = changing_calls().find(call.number);
                                           if (it == changing_calls().end()) return {};
                                           const auto now = interference(call);
                                           if (!now || seen++ != n) return {};
                                           what = name + " at " + it->second + ", call " + std::to_string(n);
                                           return *now;
                                         });
      if (what.empty()) return n;
      expect_sound(status, what);
      if (::testing::Test::HasFatalFailure()) return n;
      endings.emplace(WEXITSTATUS(status), what);
    }
  }

  testing::TemporaryFolder folder_;
  std::size_t bytes_;
};

// The save is on a disk, with a file so large that it bypasses the page cache on a local file system.
class LargeDiskFault : public DiskFault {
 protected:
  LargeDiskFault() : DiskFault(::testing::TempDir(), (std::size_t{33} << 20U) + 5) {}

  std::map<int, std::string> endings(const Interference& interference) const {
    std::map<int, std::string> found;
    const int tried = fail_each(
        [&](const SystemCall& call) { return call.number == SYS_writev ? std::optional(interference) : std::nullopt; },
        "a large write", found);
    EXPECT_GE(tried, 5);
    return found;
  }
};

TEST_F(LargeDiskFault, OfAnyWriteIsAnErrorAndLosesNothing) {
  const auto found = endings({.error = EIO});
  EXPECT_TRUE(found.size() == 1 && found.contains(6)) << found.begin()->second;
}

TEST_F(LargeDiskFault, AShortOrInterruptedWriteIsGoneOnWith) {
  for (const auto& each : {Interference{.length = 1}, Interference{.length = 8192}, Interference{.error = EINTR}}) {
    const auto found = endings(each);
    EXPECT_TRUE(found.size() == 1 && found.contains(0)) << found.begin()->second;
  }
}

TEST_F(DiskFault, OfAnyKindAtAnyCallIsAnErrorOrChangesNothing) {
  const std::vector<std::pair<int, std::string>> errors = {
      {ENOSPC, "ENOSPC"}, {EDQUOT, "EDQUOT"}, {EIO, "EIO"}, {EROFS, "EROFS"}, {ESTALE, "ESTALE"}};
  for (const auto& [error, name] : errors) {
    std::map<int, std::string> endings;
    const int tried = fail_each([error = error](const auto&) { return Interference{.error = error}; }, name, endings);
    EXPECT_GT(tried, 30) << name;
    EXPECT_TRUE(endings.size() == 2 && endings.contains(0) && endings.contains(6)) << name;
  }
}

// A snapshot that is being replaced stays until the new one is on disk. After a failed sync nobody knows what a crash
// would leave.
TEST_F(DiskFault, WhileASnapshotIsReplacedKeepsTheOldOneUntilTheNewOneIsOnDisk) {
  for (int n = 0;; ++n) {
    begin();
    int syncs = 0;
    testing::traced([&] { write_snapshot(snapshots(), 2, std::string(9000, 'x')); },
                    [&](const SystemCall& call) -> Interference {
                      if (call.number != SYS_fsync || syncs++ != n) return {};
                      return {.error = EIO};
                    });
    if (syncs <= n) break;
    int found = 0;
    for (const auto& entry : fs::directory_iterator(snapshots())) {
      const auto model = entry.path() / "model.safetensors";
      if (!fs::is_regular_file(model) || entry.is_symlink()) continue;
      found += text_of_file(model).find("earlier 2") != std::string::npos ? 1 : 0;
    }
    const bool is_durable = n >= 6;  // Three files, their folder, MANIFEST, and the folder around it.
    EXPECT_TRUE(found == 1 || is_durable) << "sync " << n;
  }
}

TEST_F(DiskFault, AnInterruptedCallIsMadeAgain) {
  const std::set<std::uint64_t> interruptible = {SYS_openat, SYS_write, SYS_writev, SYS_fsync, SYS_close};
  std::map<int, std::string> endings;
  const int tried = fail_each(
      [&](const SystemCall& call) {
        return interruptible.contains(call.number) ? std::optional(Interference{.error = EINTR}) : std::nullopt;
      },
      "EINTR", endings);
  EXPECT_GT(tried, 20);
  EXPECT_EQ(endings.size(), 1U) << endings.rbegin()->second;
  EXPECT_TRUE(endings.contains(0));
}

TEST_F(DiskFault, AShortWriteIsGoneOnWith) {
  for (const std::uint64_t length : {1, 5}) {
    std::map<int, std::string> endings;
    const int tried = fail_each(
        [&](const SystemCall& call) {
          return call.number == SYS_writev ? std::optional(Interference{.length = length}) : std::nullopt;
        },
        "short write", endings);
    EXPECT_EQ(tried, 3);
    EXPECT_EQ(endings.size(), 1U) << endings.rbegin()->second;
    EXPECT_TRUE(endings.contains(0));
  }
}

// All later calls fail too, as on a disk that is gone.
TEST_F(DiskFault, OfADiskThatStaysAwayLosesNothingThatWasThere) {
  for (int n = 0;; ++n) {
    begin();
    int seen = 0;
    const int status = testing::traced([&] { write_snapshot(snapshots(), 3, std::string(9000, 'x')); },
                                       [&](const SystemCall& call) -> Interference {
                                         if (!changing_calls().contains(call.number) || seen++ < n) return {};
                                         return {.error = EIO};
                                       });
    expect_sound(status, "gone from call " + std::to_string(n));
    if (::testing::Test::HasFatalFailure() || seen <= n) break;
  }
}

}  // namespace
}  // namespace lockstep
