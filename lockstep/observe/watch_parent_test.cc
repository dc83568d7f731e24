// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/watch_parent.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TEST(WatchParents, AreThereForAsLongAsTheyLive) {
  const testing::TemporaryFolder folder;
  const auto self = ProcessIdentity::of_process({});
  EXPECT_FALSE(living_watch_parent(folder.path(), self));
  {
    const WatchParent parent(folder.path(), self);
    EXPECT_EQ(living_watch_parent(folder.path(), self), self);
  }
  EXPECT_FALSE(living_watch_parent(folder.path(), self));
}

TEST(WatchParents, ThatWereKilledAreNone) {
  const testing::TemporaryFolder folder;
  const auto self = ProcessIdentity::of_process({});
  auto dead = self;
  ++dead.started;
  const WatchParent parent(folder.path(), dead);
  EXPECT_FALSE(living_watch_parent(folder.path(), self));
}

TEST(WatchParents, OfAFileThatIsNoneAreNone) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "watch");
  std::ofstream(folder.path() / "watch/parent") << "{";
  EXPECT_FALSE(living_watch_parent(folder.path(), ProcessIdentity::of_process({})));
}

}  // namespace
}  // namespace lockstep
