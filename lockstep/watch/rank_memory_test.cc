// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/rank_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

RankMemory opened(const SharedRankMemory& shared) {
  return RankMemory(FileDescriptor(::open(shared.give().c_str(), O_RDWR | O_CLOEXEC)));
}

void write(RankMemory& memory, std::int64_t step, std::size_t bytes) {
  std::ranges::fill(memory.begin(step, bytes), std::byte(step % 251));
  memory.commit(step);
}

bool holds(const RankMemory& memory, std::int64_t step, std::size_t bytes) {
  const auto found = memory.find(step);
  return found && found->size() == bytes &&
         std::ranges::all_of(*found, [&](std::byte each) { return each == std::byte(step % 251); });
}

TEST(RankMemory, KeepsTheRecordsOfTwoSteps) {
  const SharedRankMemory shared;
  auto memory = opened(shared);
  EXPECT_FALSE(memory.find(0));
  write(memory, 0, 100);
  write(memory, 1, 90);
  EXPECT_TRUE(holds(memory, 0, 100));
  EXPECT_TRUE(holds(memory, 1, 90));
  write(memory, 2, 110);
  EXPECT_FALSE(memory.find(0));
  EXPECT_TRUE(holds(memory, 1, 90));
  EXPECT_TRUE(holds(memory, 2, 110));
}

TEST(RankMemory, KeepsTheOtherRecordWhileItGrows) {
  const SharedRankMemory shared;
  auto memory = opened(shared);
  write(memory, 6, 5000);
  write(memory, 7, 3'000'000);
  EXPECT_TRUE(holds(memory, 6, 5000));
  EXPECT_TRUE(holds(memory, 7, 3'000'000));
}

TEST(RankMemory, HasNoRecordThatWasNotCommitted) {
  const SharedRankMemory shared;
  auto memory = opened(shared);
  write(memory, 4, 64);
  memory.begin(6, 64);
  EXPECT_FALSE(memory.find(4));
  EXPECT_FALSE(memory.find(6));
}

TEST(RankMemory, IsArmedOnceTheRankSaysSo) {
  const SharedRankMemory shared;
  EXPECT_FALSE(shared.is_armed());
  opened(shared).arm();
  EXPECT_TRUE(shared.is_armed());
}

TEST(RankMemory, OfAnotherFileIsRefused) {
  FileDescriptor file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  try {
    const RankMemory memory(std::move(file));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
    EXPECT_NE(error.fact().find("is too small"), std::string::npos) << error.what();
  }
}

// Whatever the moment of the kill, the next process finds the newest complete record, or the one before it.
TEST(RankMemory, OutlivesAWriterThatIsKilled) {
  for (int trial = 0; trial < 30; ++trial) {
    const SharedRankMemory shared;
    const pid_t child = ::fork();
    if (child == 0) {
      auto memory = opened(shared);
      for (std::int64_t step = 1;; ++step) write(memory, step, 20'000);
    }
    ::usleep(static_cast<useconds_t>(500 + 37 * trial));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    auto memory = opened(shared);
    std::vector<std::int64_t> whole;
    for (std::int64_t step = 1; step < 20'000 && whole.size() < 2; ++step) {
      if (memory.find(step)) whole.push_back(step);
    }
    for (const auto step : whole) EXPECT_TRUE(holds(memory, step, 20'000)) << "trial " << trial << ", step " << step;
    if (whole.size() == 2) EXPECT_EQ(whole[1], whole[0] + 1);
  }
}

}  // namespace
}  // namespace lockstep
