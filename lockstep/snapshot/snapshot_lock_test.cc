// SPDX-License-Identifier: Apache-2.0
// The fault: two programs wrote into one snapshot folder. One of them died when it removed a snapshot that the other
// had removed already.
#include "lockstep/snapshot/snapshot_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

ProcessIdentity self() { return ProcessIdentity::of_process({}); }

void write_whole_below(const std::filesystem::path& snapshots, const std::string& name) {
  std::filesystem::create_directories(snapshots / name);
  write_whole(snapshots / name / "model.safetensors", "half");
}

// Another process that lives: the parent of this one.
ProcessIdentity another() {
  auto identity = self();
  identity.pid = ::getppid();
  identity.started = 0;
  return identity;
}

TEST(SnapshotLock, RefusesAFolderThatAnotherProcessWritesIn) {
  const TemporaryFolder folder;
  const auto snapshots = folder.path() / "snapshots";
  {
    const auto held = lock_snapshots(snapshots, self());
    ASSERT_NE(held, nullptr);
    EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { lock_snapshots(snapshots, another()); }),
               "another live run writes in '" + folder.path().string() + "': process " + std::to_string(::getpid()));
  }
  EXPECT_NE(lock_snapshots(snapshots, another()), nullptr);
}

TEST(SnapshotLock, IsTheRunsOwn) {
  const TemporaryFolder folder;
  const RunLock run(folder.path(), self());
  EXPECT_EQ(lock_snapshots(folder.path() / "snapshots", self()), nullptr) << "this process has it already";
  EXPECT_EQ(lock_snapshots(folder.path() / "snapshots/", self()), nullptr);
  message_of(ErrorKind::kEnvironment, [&] { lock_snapshots(folder.path() / "snapshots", another()); });
}

// Nobody can ask whether a process on another host lives. The holder of the lock need not ask, since all other writers
// have ended.
TEST(SnapshotLock, ItsHolderRemovesWhatOtherWritersLeftOfAnyHostAndAge) {
  const TemporaryFolder folder;
  const auto snapshots = folder.path() / "snapshots";
  const auto left = {".tmp-node-17.example-4711.step-0000000003", ".tmp-node-18-4712.latest",
                     ".tmp-x-1.removed-step-0000000001"};
  for (const auto* each : left) write_whole_below(snapshots, each);
  write_whole_below(snapshots, ".tmp-kept-by-the-user");
  const auto lock = lock_snapshots(snapshots, self());
  for (const auto* each : left) EXPECT_FALSE(std::filesystem::exists(snapshots / each)) << each;
  EXPECT_TRUE(std::filesystem::exists(snapshots / ".tmp-kept-by-the-user"));
}

TEST(SnapshotLock, OfAFolderOfAnotherNameLiesInIt) {
  const TemporaryFolder folder;
  const auto first = lock_snapshots(folder.path() / "first", self());
  const auto second = lock_snapshots(folder.path() / "second", self());
  EXPECT_NE(second, nullptr);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "first/run.lock"));
}

}  // namespace
}  // namespace lockstep
