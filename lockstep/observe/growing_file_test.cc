// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/growing_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Lines = std::vector<std::string>;

class GrowingFileTest : public ::testing::Test {
 protected:
  void append(const std::string& text) const { std::ofstream(path(), std::ios::app) << text; }
  std::filesystem::path path() const { return folder_.path() / "lines"; }

  static Lines new_lines(GrowingFile& file) {
    Lines lines;
    file.read([&](std::string_view line) { lines.emplace_back(line); });
    return lines;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(GrowingFileTest, HandsOnEachWholeLineOnce) {
  GrowingFile file(path());
  EXPECT_EQ(new_lines(file), Lines{}) << "a file that is not there yet";
  append("one\ntwo\nthr");
  EXPECT_EQ(new_lines(file), (Lines{"one", "two"}));
  EXPECT_EQ(new_lines(file), Lines{});
  append("ee\n");
  EXPECT_EQ(new_lines(file), Lines{"three"});
}

TEST_F(GrowingFileTest, ReadsOnlyTheEndsOfALongFile) {
  for (int i = 10; i < 90; ++i) append(std::to_string(i) + "\n");
  GrowingFile file(path(), {.head_bytes = 7, .tail_bytes = 6});
  EXPECT_EQ(new_lines(file), (Lines{"10", "11", "88", "89"}));
  append("90\n");
  EXPECT_EQ(new_lines(file), Lines{"90"});
}

TEST_F(GrowingFileTest, LeavesOutALineThatBeganInWhatIsLeftOut) {
  for (int i = 10; i < 90; ++i) append(std::to_string(i) + "\n");
  GrowingFile file(path(), {.head_bytes = 0, .tail_bytes = 5});
  EXPECT_EQ(new_lines(file), Lines{"89"});
}

TEST_F(GrowingFileTest, ReadsAFileThatHasBecomeShorterFromItsStart) {
  GrowingFile file(path());
  append("one\ntwo\n");
  new_lines(file);
  std::filesystem::resize_file(path(), 4);
  EXPECT_EQ(new_lines(file), Lines{"one"});
}

TEST_F(GrowingFileTest, SaysWhatCannotBeRead) {
  GrowingFile folder(folder_.path());
  try {
    new_lines(folder);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find(folder_.path().string()), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
