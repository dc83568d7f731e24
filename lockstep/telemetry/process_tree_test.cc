// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/process_tree.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  write_whole(file, text, /*durable=*/false);
}

/// Makes a process in a fake /proc. Its name has brackets and blanks, which a simple parser gets wrong.
void add_process(const fs::path& root, int pid, const std::string& children, int ticks) {
  const fs::path process = root / "proc" / std::to_string(pid);
  // The fields from the third one, the state, on. utime is field 14, starttime field 22, and rss field 24.
  write(process / "stat", std::to_string(pid) + " (a) R 1 (b) D 1 1 1 0 -1 0 0 0 0 0 " + std::to_string(ticks) +
                              " 5 2 1 20 0 3 0 4711 1000000 10 18446744073709551615\n");
  write(process / "io", "rchar: 1\nwchar: 77\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 9\n");
  write(process / "task" / std::to_string(pid) / "children", children);
}

TEST(ProcessTree, SumsATaskAndAllThatItsThreadsHaveStarted) {
  const TemporaryFolder root;
  add_process(root.path(), 100, "101 ", 92);
  add_process(root.path(), 101, "", 92);
  add_process(root.path(), 102, "", 92);
  write(root.path() / "proc/100/task/103/children", "102 ");
  const auto sum = sample_of_tree(100, root.path());
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->processes, 3);
  EXPECT_EQ(sum->threads, 9);
  EXPECT_EQ(sum->state, 'D');
  EXPECT_EQ(sum->read_bytes, 3 * 4096U);
  EXPECT_EQ(sum->written_bytes, 3 * 512U);
  EXPECT_EQ(sum->memory_bytes, 30U * static_cast<unsigned>(::sysconf(_SC_PAGESIZE)));
  EXPECT_DOUBLE_EQ(sum->cpu_seconds, 3 * 100.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(start_of_process(100, root.path()), 4711U);
  EXPECT_EQ(sum->passed_bytes, 3 * 77U);
  EXPECT_EQ(processes_of_tree(100, root.path()), (std::vector<pid_t>{100, 102, 101}));
}

TEST(ProcessTree, AProcessThatIsGoneHasNoSample) {
  const TemporaryFolder root;
  EXPECT_EQ(sample_of_tree(100, root.path()), std::nullopt);
  EXPECT_EQ(start_of_process(100, root.path()), std::nullopt);
  EXPECT_TRUE(processes_of_tree(100, root.path()).empty());
}

TEST(ProcessTree, HasTheVariablesThatAProgramWasStartedWith) {
  const TemporaryFolder root;
  using namespace std::string_literals;
  write(root.path() / "proc/100/environ", "HOME=/home/a=b\0EMPTY=\0broken\0"s);
  const Environment::Map wanted{{"HOME", "/home/a=b"}, {"EMPTY", ""}};
  EXPECT_EQ(environment_of_process(100, root.path()).all(), wanted);
  EXPECT_TRUE(environment_of_process(101, root.path()).all().empty());
}

TEST(ProcessTree, SeesAChildOfThisVeryProcess) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::close(ends[1]);
    ::_exit(::read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  const auto sum = sample_of_tree(::getpid());
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->processes, 2);
  EXPECT_GT(sum->memory_bytes, 100000U);
  EXPECT_TRUE(start_of_process(child));
  EXPECT_EQ(processes_of_tree(::getpid()), (std::vector<pid_t>{::getpid(), child}));
  ::close(ends[1]);
  ::close(ends[0]);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(start_of_process(child), std::nullopt) << "what only waits for its parent runs no more";
  EXPECT_EQ(processes_of_tree(::getpid()), std::vector<pid_t>{::getpid()});
  ::waitpid(child, nullptr, 0);
}

TEST(ProcessTree, ReadsWhatMemoryTheNodeHas) {
  const TemporaryFolder root;
  write(root.path() / "proc/meminfo", "MemTotal:       527946580 kB\nMemFree:  1 kB\nMemAvailable:   505000000 kB\n");
  EXPECT_EQ(sample_of_memory(root.path()).total_bytes, 527946580ULL * 1024);
  EXPECT_EQ(sample_of_memory(root.path()).available_bytes, 505000000ULL * 1024);
}

}  // namespace
}  // namespace lockstep
