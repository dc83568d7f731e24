// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "tests/support/local_launch.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::is_alive;
using testing::Launch;
using testing::pids;
using testing::script;
using testing::TemporaryFolder;

/// Opens a named pipe, which waits for its reader, and writes a line to it.
void write_whole_line(const std::string& gate) {
  const FileDescriptor pipe(::open(gate.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(::write(pipe.get(), "\n", 1), 1);
}

TEST(LocalLauncher, AFloodOfOutputComesThroughWhole) {
  Launch launch(script("seq 1 200000", 2));
  const auto lines = split(trimmed(launch.all_lines()), '\n');
  EXPECT_EQ(launch.exit_code(), 0);
  long sum = 0;
  for (const auto& line : lines) {
    const auto number = parsed_int<long>(line);
    EXPECT_TRUE(number) << line;
    sum += number.value_or(0);
  }
  EXPECT_EQ(lines.size(), 400'000U);
  EXPECT_EQ(sum, 2 * 200'000L * 200'001L / 2);
}

TEST(LocalLauncher, AFloodThatNobodyReadsHoldsUpNoSupervision) {
  const TemporaryFolder folder;
  const std::string gate = (folder.path() / "gate").string();
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  Launch launch(script("echo $$ >&2; if [ $RANK = 1 ]; then read x < '" + gate + "'; exit 5; fi; exec yes", 2));
  // The flood may come between the two numbers, thousands of lines of it.
  std::ptrdiff_t count = 2;
  while (pids(launch.lines(count)).size() < 2) count *= 2;
  const auto all = pids(launch.lines(count));
  launch.wait_until_full();
  write_whole_line(gate);
  for (const pid_t pid : all) {
    while (is_alive(pid)) ::poll(nullptr, 0, 5);
  }
  launch.all_lines();
  EXPECT_EQ(launch.exit_code(), 5);
}

TEST(LocalLauncher, ARankThatClosesItsOutputIsStillWaitedFor) {
  const TemporaryFolder folder;
  const std::string closed = (folder.path() / "closed").string();
  const std::string gate = (folder.path() / "gate").string();
  ASSERT_EQ(::mkfifo(closed.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  Launch launch(script("exec >&- 2>&-; read x < '" + closed + "'; read x < '" + gate + "'; exit 6", 1));
  write_whole_line(closed);
  EXPECT_EQ(::waitpid(launch.pid(), nullptr, WNOHANG), 0);
  write_whole_line(gate);
  launch.all_lines();
  EXPECT_EQ(launch.exit_code(), 6);
}

TEST(LocalLauncher, ALastLineWithoutItsEndIsWhole) {
  Launch launch(script("printf 'no end'", 1));
  EXPECT_EQ(launch.all_lines(), "no end\n");
  EXPECT_EQ(launch.exit_code(), 0);
}

TEST(LocalLauncher, StandardErrorGoesToALogOfEachRankToo) {
  const TemporaryFolder folder;
  LocalJob job = script("echo data; echo progress of $RANK >&2", 2);
  job.log_folder = folder.path() / "logs";
  Launch launch(job);
  launch.all_lines();
  EXPECT_EQ(launch.exit_code(), 0);
  EXPECT_EQ(text_of_file(job.log_folder / "rank-0000.log"), "progress of 0\n");
  EXPECT_EQ(text_of_file(job.log_folder / "rank-0001.log"), "progress of 1\n");
}

}  // namespace
}  // namespace lockstep
