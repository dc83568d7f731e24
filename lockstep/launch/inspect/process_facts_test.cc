// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/inspect/process_facts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <thread>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

/// A process that does what a test says, until the test ends.
class OtherProcess {
 public:
  explicit OtherProcess(const std::function<void()>& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    ::_exit(0);
  }
  ~OtherProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  pid_t pid() const { return pid_; }
  ProcessFacts await_call(const std::string& name) const {
    ProcessFacts facts;
    while ((facts = read_process_facts(pid_, pid_)).system_call != name) std::this_thread::yield();
    return facts;
  }

 private:
  pid_t pid_;
};

TEST(ProcessFactsTest, NameTheFileThatIsWaitedFor) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "samples";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const OtherProcess other([&] {
    const int fd = ::open(path.c_str(), O_RDWR);
    char none = 0;
    while (::read(fd, &none, 1) != 1) {
    }
  });
  const auto facts = other.await_call("read");
  EXPECT_EQ(facts.file, path.string());
  EXPECT_HAS(describe_wait(facts), "in read of " + path.string());
  EXPECT_EQ(facts.threads, 1);
  EXPECT_GE(facts.cpu_s, 0);
  EXPECT_GT(facts.resident_bytes, 0);
  EXPECT_HAS(facts.command, "lockstep_launch_test");
}

TEST(ProcessFactsTest, OfNoProcessAreEmpty) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const auto facts = read_process_facts(child, child);
  EXPECT_EQ(facts.state, '?');
  EXPECT_EQ(describe_wait(facts), "");
  EXPECT_TRUE(processes_below(child, 10).empty());
  EXPECT_TRUE(words_of_process(child).empty());
  EXPECT_FALSE(variables_of_process(child).get("PATH"));
}

TEST(ProcessFactsTest, NameTheProcessesBelowOne) {
  const OtherProcess other([] {
    if (::fork() == 0) ::pause();
    ::pause();
  });
  std::vector<pid_t> below;
  while ((below = processes_below(other.pid(), 10)).empty()) std::this_thread::yield();
  const auto mine = processes_below(::getpid(), 10);
  EXPECT_NE(std::ranges::find(mine, other.pid()), mine.end());
  EXPECT_NE(std::ranges::find(mine, below.front()), mine.end());
  EXPECT_EQ(processes_below(::getpid(), 1).size(), 1U);
  ::kill(below.front(), SIGKILL);
}

}  // namespace
}  // namespace lockstep
