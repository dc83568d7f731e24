// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/run_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

class RunLockTest : public ::testing::TestWithParam<LockMethod> {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "run-lock-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static ProcessIdentity self() { return ProcessIdentity::of_process({}); }
  RunLock take() const { return RunLock(folder_, self(), GetParam()); }

  std::string refusal() const {
    try {
      take();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
      return error.what();
    }
    return {};
  }

  std::filesystem::path folder_;
};

// Starts a process that calls `take`, and keeps the result until it is killed.
class Holder {
 public:
  explicit Holder(const std::function<void()>& hold) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      hold();
      [[maybe_unused]] const auto put = ::write(ready[1], "x", 1);
      while (true) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Holder() { kill(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

INSTANTIATE_TEST_SUITE_P(ByKernelAndByRecord, RunLockTest, ::testing::Values(LockMethod::kKernel, LockMethod::kRecord),
                         [](const auto& method) { return method.param == LockMethod::kKernel ? "Kernel" : "Record"; });

TEST_P(RunLockTest, RefusesASecondLiveRunAndNamesTheHolder) {
  std::optional<RunLock> held;
  const Holder holder([&] { held.emplace(take()); });
  const std::string text = refusal();
  EXPECT_NE(text.find("another live run writes in '" + folder_.string() + "': process " + std::to_string(holder.pid())),
            std::string::npos)
      << text;
}

TEST_P(RunLockTest, ADeadWriterNeverBlocks) {
  std::optional<RunLock> held;
  Holder holder([&] { held.emplace(take()); });
  EXPECT_NE(refusal(), "");
  holder.kill();
  EXPECT_EQ(refusal(), "");
}

TEST_P(RunLockTest, IsRefusedToASecondRunInTheSameProcess) {
  const RunLock lock = take();
  EXPECT_NE(refusal(), "");
}

TEST_P(RunLockTest, IsGivenBackAtTheEnd) {
  { const RunLock lock = take(); }
  const RunLock lock = take();
  EXPECT_EQ(lock.taken_from(), std::nullopt);
}

TEST_P(RunLockTest, OfAnEarlierStartOfTheSameJobIsTaken) {
  ProcessIdentity before = ProcessIdentity::of_process({{"SLURM_JOB_ID", "56"}});
  before.boot = "a node that is gone";
  write_whole(folder_ / "run.lock", before.to_json(), false);
  const auto now = ProcessIdentity::of_process({{"SLURM_JOB_ID", "56"}, {"SLURM_RESTART_COUNT", "1"}});
  const RunLock lock(folder_, now, GetParam());
  EXPECT_EQ(lock.taken_from(), std::nullopt);
}

TEST_P(RunLockTest, TakesAFileThatATornWriteLeft) {
  write_whole(folder_ / "run.lock", R"({"host":"n1","pi)", false);
  EXPECT_EQ(refusal(), "");
}

TEST_P(RunLockTest, SaysWhyItCannotBeWritten) {
  try {
    const RunLock lock(folder_ / "none", self(), GetParam());
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find("none/run.lock' failed: No such file"), std::string::npos) << error.what();
  }
}

using RunLockWithoutKernelTest = RunLockTest;
INSTANTIATE_TEST_SUITE_P(ByRecord, RunLockWithoutKernelTest, ::testing::Values(LockMethod::kRecord));

TEST_P(RunLockWithoutKernelTest, TakesOverFromAnUnseenHolderAndNamesIt) {
  ProcessIdentity elsewhere = self();
  elsewhere.host = "n7";
  elsewhere.boot = "another machine";
  write_whole(folder_ / "run.lock", elsewhere.to_json(), false);
  const RunLock lock = take();
  EXPECT_EQ(lock.taken_from(), "process " + std::to_string(elsewhere.pid) + " on n7");
}

using RunLockWithKernelTest = RunLockTest;
INSTANTIATE_TEST_SUITE_P(ByKernel, RunLockWithKernelTest, ::testing::Values(LockMethod::kKernel));

TEST_P(RunLockWithKernelTest, IsTakenWhereOnlyAChildOfTheDeadWriterKeepsIt) {
  ProcessIdentity dead = self();
  dead.started += 1;
  const Holder child([&] {
    const int fd = ::open((folder_ / "run.lock").c_str(), O_RDWR | O_CREAT, 0666);
    ::flock(fd, LOCK_EX);
    const std::string record = dead.to_json();
    [[maybe_unused]] const auto put = ::write(fd, record.data(), record.size());
  });
  EXPECT_EQ(refusal(), "");
}

TEST_P(RunLockWithKernelTest, OfManyThatStartAtOnceOneGetsIt) {
  std::array<int, 2> go{};
  ASSERT_EQ(::pipe(go.data()), 0);
  std::array<pid_t, 8> children{};
  for (auto& child : children) {
    child = ::fork();
    if (child != 0) continue;
    ::close(go[1]);
    char byte = 0;
    [[maybe_unused]] const auto got = ::read(go[0], &byte, 1);
    try {
      const RunLock lock(folder_, self());
      while (true) ::pause();
    } catch (const Error&) {
      ::_exit(1);
    }
  }
  ::close(go[0]);
  ::close(go[1]);
  int refused = 0;
  for (int status = 0; refused < 7;) {
    ASSERT_GT(::wait(&status), 0);
    EXPECT_EQ(WEXITSTATUS(status), 1);
    ++refused;
  }
  EXPECT_NE(refusal(), "");
  for (const pid_t child : children) ::kill(child, SIGKILL);
  ASSERT_GT(::wait(nullptr), 0);
}

}  // namespace
}  // namespace lockstep
