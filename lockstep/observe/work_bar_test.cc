// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/work_bar.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

class WorkBarTest : public ::testing::Test {
 protected:
  WorkBarTest() : file_(::open((folder_.path() / "shown").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600)) {}

  ProgressOptions options(bool is_terminal) const {
    return {.fd = file_.get(), .is_terminal = is_terminal, .columns = 80};
  }
  std::string shown() const { return text_of_file(folder_.path() / "shown"); }

  testing::TemporaryFolder folder_;
  FileDescriptor file_;
  Clock::time_point now_{};
};

TEST_F(WorkBarTest, WritesALineEveryTenSecondsIntoAFile) {
  WorkBar bar(options(false), "set.h5", "images", [this] { return now_; });
  for (int second = 0; second <= 20; ++second) {
    bar.show(static_cast<std::uint64_t>(10 * second), 400);
    now_ += std::chrono::seconds(1);
  }
  EXPECT_EQ(shown(),
            "set.h5 · 100 images of 400 images · 10 images/s · 00:00:30 left\n"
            "set.h5 · 200 images of 400 images · 10 images/s · 00:00:20 left\n");
}

TEST_F(WorkBarTest, DrawsOneLineOnATerminalAndClearsItAtTheEnd) {
  {
    WorkBar bar(options(true), "a.gz", {}, [this] { return now_; });
    bar.show(0, 2048);
    bar.show(512, 2048);  // At the same moment: not drawn.
    now_ += std::chrono::seconds(1);
    bar.show(1024, 2048);
  }
  EXPECT_EQ(shown(),
            "\r\x1b[K───────── a.gz · 0 B of 2.0 KiB"
            "\r\x1b[K━━━━───── a.gz · 1.0 KiB of 2.0 KiB · 1.0 KiB/s · 00:00:01 left"
            "\r\x1b[K");
}

TEST_F(WorkBarTest, LeavesEarlierWorkOutOfTheSpeed) {
  WorkBar bar(options(true), "a.gz", {}, [this] { return now_; });
  bar.show(1 << 20, 0);
  now_ += std::chrono::seconds(2);
  bar.show((1 << 20) + 2048, 0);
  EXPECT_NE(shown().find("1.0 KiB/s"), std::string::npos) << shown();
}

}  // namespace
}  // namespace lockstep
