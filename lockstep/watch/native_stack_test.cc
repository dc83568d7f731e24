// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/native_stack.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <thread>

#include "lockstep/base/file.h"
#include "lockstep/watch/page_reader.h"
#include "lockstep/watch/rank_watch.h"
#include "lockstep/watch/stack_writer.h"

namespace lockstep {

// Not static, so that the test's own symbol table has them.
__attribute__((noinline)) void wait_where_a_test_looks(int fd) {
  char none = 0;
  while (::read(fd, &none, 1) != 1) {
  }
  asm volatile("" ::: "memory");
}
__attribute__((noinline)) void compute_where_a_test_looks(const volatile bool& is_over) {
  while (!is_over) asm volatile("" ::: "memory");
}

namespace {

using std::chrono::milliseconds;

/// A rank in a process of its own, which does what a test says until the test ends.
class OtherRank {
 public:
  explicit OtherRank(const std::function<void(Page&)>& work) {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const FileDescriptor file(::open(page_.give().c_str(), O_RDWR | O_CLOEXEC));
      static Page page(::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
      work(page);
      ::_exit(0);
    }
    while (!page_.sight() || page_.sight()->changes == 0) std::this_thread::yield();
  }
  ~OtherRank() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  OtherRank(const OtherRank&) = delete;
  OtherRank& operator=(const OtherRank&) = delete;

  pid_t pid() const { return pid_; }
  const PageLayout& layout() const { return page_.layout(); }
  void await_state(char state) const {
    while (process_state(pid_) != state) std::this_thread::yield();
  }

 private:
  SharedPage page_;
  pid_t pid_ = -1;
};

void read_forever(Page& page) {
  install_stack_writer(page);
  int ends[2];
  if (::pipe(ends) != 0) return;
  page.enter(Phase::kLoading, 3);
  wait_where_a_test_looks(ends[0]);
}

bool has(const std::vector<std::string>& frames, const std::string& name) {
  return std::ranges::find(frames, name) != frames.end();
}

TEST(NativeStacks, NameTheFunctionsOfARankThatWaits) {
  const OtherRank rank(read_forever);
  rank.await_state('S');
  for (int i = 0; i < 3; ++i) {
    const auto stack = read_native_stack(rank.layout(), rank.pid(), milliseconds(20'000));
    EXPECT_EQ(stack.note, "");
    ASSERT_FALSE(stack.frames.empty());
    EXPECT_TRUE(has(stack.frames, "lockstep::wait_where_a_test_looks")) << ::testing::PrintToString(stack.frames);
    EXPECT_FALSE(has(stack.frames, "lockstep::read_native_stack"));
  }
  rank.await_state('S');
  EXPECT_EQ(rank.layout().phase, static_cast<std::uint32_t>(Phase::kLoading)) << "it waits in the same call";
}

TEST(NativeStacks, NameTheFunctionsOfARankThatComputes) {
  const OtherRank rank([](Page& page) {
    install_stack_writer(page);
    page.enter(Phase::kForward, 3);
    static const volatile bool is_over = false;
    compute_where_a_test_looks(is_over);
  });
  const auto stack = read_native_stack(rank.layout(), rank.pid(), milliseconds(20'000));
  ASSERT_FALSE(stack.frames.empty()) << stack.note;
  EXPECT_EQ(stack.frames.front(), "lockstep::compute_where_a_test_looks");
}

TEST(NativeStacks, AreOfTheTrainingThread) {
  const OtherRank rank([](Page& page) {
    install_stack_writer(page);
    int ends[2];
    if (::pipe(ends) != 0) return;
    std::thread trains([&] {
      page.enter(Phase::kBackward, 3);
      wait_where_a_test_looks(ends[0]);
    });
    trains.join();
  });
  const auto stack = read_native_stack(rank.layout(), rank.pid(), milliseconds(20'000));
  EXPECT_TRUE(has(stack.frames, "lockstep::wait_where_a_test_looks")) << stack.note;
}

TEST(NativeStacks, OfAStoppedProcessAreNotToBeHad) {
  const OtherRank rank(read_forever);
  rank.await_state('S');
  ::kill(rank.pid(), SIGSTOP);
  rank.await_state('T');
  const auto stack = read_native_stack(rank.layout(), rank.pid(), milliseconds(20'000));
  EXPECT_TRUE(stack.frames.empty());
  EXPECT_EQ(stack.note, "a stopped process writes no stack");
  ::kill(rank.pid(), SIGCONT);
  rank.await_state('S');
  EXPECT_FALSE(read_native_stack(rank.layout(), rank.pid(), milliseconds(20'000)).frames.empty());
}

// The signal would end such a process.
TEST(NativeStacks, AreNotAskedOfAProgramWithoutAHandler) {
  const OtherRank rank([](Page& page) {
    page.layout().stack_signal = SIGRTMIN + 9;
    page.enter(Phase::kLoading, 3);
    while (true) ::pause();
  });
  const auto stack = read_native_stack(rank.layout(), rank.pid(), milliseconds(20'000));
  EXPECT_EQ(stack.note, "the program writes no stack");
  rank.await_state('S');
}

TEST(NativeStacks, AreGivenUpAfterAWhile) {
  const OtherRank rank([](Page& page) {
    install_stack_writer(page);
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    page.enter(Phase::kLoading, 3);
    while (true) ::pause();
  });
  const auto stack = read_native_stack(rank.layout(), rank.pid(), milliseconds(50));
  EXPECT_EQ(stack.note, "the process did not answer in time");
}

TEST(NativeStacks, LeaveASignalThatTheProgramUses) {
  const OtherRank rank([](Page& page) {
    ::signal(SIGRTMIN + 9, [](int) {});
    install_stack_writer(page);
    page.enter(Phase::kLoading, 3);
    while (true) ::pause();
  });
  EXPECT_EQ(rank.layout().stack_signal, SIGRTMIN + 10);
  EXPECT_EQ(read_native_stack(rank.layout(), rank.pid(), milliseconds(20'000)).note, "");
}

TEST(NativeStacks, MayBeAskedAtAnyMoment) {
  const OtherRank rank([](Page& page) {
    install_stack_writer(page);
    for (std::int64_t step = 0;; ++step) {
      page.enter(Phase::kForward, step);
      std::vector<std::string> memory;  // Much of the time is spent within malloc().
      for (int i = 0; i < 50; ++i) memory.emplace_back(static_cast<std::size_t>(100 + step % 700), 'x');
      try {
        if (step % 7 == 0) throw std::runtime_error("unwinding");
      } catch (const std::exception&) {
        page.enter(Phase::kUpdate, step);
      }
    }
  });
  const auto before = rank.layout().step.load();
  for (int i = 0; i < 300; ++i) {
    const auto stack = read_native_stack(rank.layout(), rank.pid(), milliseconds(20'000));
    ASSERT_FALSE(stack.frames.empty()) << stack.note;
  }
  const auto after = rank.layout().step.load();
  EXPECT_GT(after, before);
  while (rank.layout().step.load() < after + 100) ASSERT_EQ(::waitpid(rank.pid(), nullptr, WNOHANG), 0);
}

TEST(TextStacks, AreReadFromTheFileThatThePageNames) {
  const OtherRank rank([](Page& page) {
    static const int file = ::memfd_create("stack", 0);
    ::signal(SIGRTMIN + 9, [](int) {
      constexpr std::string_view kText =
          "Current thread 0x00007f0 (most recent call first):\n"
          "  File \"/x/my data.py\", line 31 in read\n"
          "  File \"/x/train.py\", line 7 in <module>\n";
      [[maybe_unused]] const auto put = ::write(file, kText.data(), kText.size());
    });
    page.layout().stack_signal = SIGRTMIN + 9;
    page.layout().text_descriptor = file;
    page.enter(Phase::kLoading, 3);
    while (true) ::pause();
  });
  for (int i = 0; i < 2; ++i) {
    const auto stack = read_text_stack(rank.layout(), rank.pid(), milliseconds(20'000));
    EXPECT_EQ(stack.frames, (std::vector<std::string>{"read (my data.py:31)", "<module> (train.py:7)"})) << stack.note;
  }
}

TEST(TextStacks, OfFaulthandlerAreThoseOfTheFirstThread) {
  EXPECT_EQ(faulthandler_frames("Thread 0x1 (most recent call first):\n  File \"a.py\", line 1 in f\n\n"
                                "Thread 0x2 (most recent call first):\n  File \"b.py\", line 2 in g\n"),
            std::vector<std::string>{"f (a.py:1)"});
  EXPECT_TRUE(faulthandler_frames("  File \"cut").empty());
  EXPECT_TRUE(faulthandler_frames("").empty());
}

}  // namespace
}  // namespace lockstep
