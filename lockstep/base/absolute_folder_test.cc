// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/absolute_folder.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

TEST(AbsoluteFolder, HasTheFoldersNameWhateverIsAtItsEnd) {
  for (const char* folder : {"data", "data/", "./data//", "other/../data/."}) {
    EXPECT_EQ(absolute_folder(folder), fs::current_path() / "data") << folder;
  }
  EXPECT_EQ(absolute_folder("/a/b/"), "/a/b");
  EXPECT_EQ(absolute_folder("."), fs::current_path());
  EXPECT_EQ(absolute_folder("/"), "/");
}

}  // namespace
}  // namespace lockstep
