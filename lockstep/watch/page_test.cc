// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/page.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/watch/page_reader.h"

namespace lockstep {
namespace {

struct alignas(PageLayout) Memory {
  std::array<std::byte, kPageBytes> bytes{};
  const PageLayout& layout() const { return *reinterpret_cast<const PageLayout*>(bytes.data()); }
};

TEST(Pages, ShowWhatWasNotedLast) {
  Memory memory;
  EXPECT_EQ(sight_of(memory.layout()), std::nullopt) << "nobody has written it";
  Page page(memory.bytes.data());
  page.set_rank(3);
  page.enter(Phase::kLoading, 12);
  page.begin_batch(12, std::vector<std::int64_t>{768, 5, 6});
  page.begin_collective("all_reduce", "Float", 1024);
  page.enter(Phase::kBackward, 12);
  const auto sight = sight_of(memory.layout());
  ASSERT_TRUE(sight);
  EXPECT_EQ(sight->phase, Phase::kBackward);
  EXPECT_EQ(sight->step, 12);
  EXPECT_EQ(sight->first_sample, 768);
  EXPECT_EQ(sight->samples, 3);
  EXPECT_EQ(sight->entered[static_cast<std::size_t>(Phase::kLoading)], 1U);
  EXPECT_EQ(sight->collective, (Collective{.number = 1, .what = "all_reduce Float", .elements = 1024}));
}

TEST(Pages, ShowTheBucketTheTimeAndTheSampleThatIsNotThere) {
  Memory memory;
  Page page(memory.bytes.data());
  page.enter(Phase::kLoading, 12);
  page.wait_for_sample(4711);
  page.begin_collective("all_reduce", "Float", 1024, "bucket 3");
  const auto sight = sight_of(memory.layout());
  ASSERT_TRUE(sight);
  EXPECT_EQ(sight->collective.detail, "bucket 3");
  EXPECT_EQ(sight->loading_sample, 4711);
  EXPECT_GE(sight->noted_s_ago, 0);
  EXPECT_LT(sight->noted_s_ago, 60);
  EXPECT_EQ(sight->thread, ::gettid());
  page.enter(Phase::kForward, 12);
  EXPECT_EQ(sight_of(memory.layout())->loading_sample, -1) << "it is there";
}

TEST(Pages, NameTheRunFolderOnce) {
  Memory memory;
  Page page(memory.bytes.data());
  EXPECT_EQ(sight_of(memory.layout())->run_dir, "");
  page.set_run_dir(std::string(5000, 'x'));
  EXPECT_EQ(sight_of(memory.layout())->run_dir, "") << "too long for its place";
  page.set_run_dir("/runs/digits");
  page.set_run_dir("/runs/other");
  EXPECT_EQ(sight_of(memory.layout())->run_dir, "/runs/digits");
}

TEST(Pages, AddUpTheTimeOfEachPhaseWithThePresentOne) {
  Memory memory;
  Page page(memory.bytes.data());
  // The clock is the kernel's, so the test sets back when the phase began.
  page.enter(Phase::kLoading, 1);
  page.layout().entered_ns -= 5'000'000'000;
  const auto spent = [&](Phase phase) {
    return sight_of(memory.layout())->spent_s->at(static_cast<std::size_t>(phase));
  };
  EXPECT_NEAR(spent(Phase::kLoading), 5, 1);
  page.enter(Phase::kForward, 1);
  page.layout().entered_ns -= 2'000'000'000;
  EXPECT_NEAR(spent(Phase::kLoading), 5, 1);
  EXPECT_NEAR(spent(Phase::kForward), 2, 1);
  EXPECT_EQ(spent(Phase::kSaving), 0);
}

TEST(Pages, OfTheFirstVersionAreReadToo) {
  Memory memory;
  Page page(memory.bytes.data());
  page.enter(Phase::kSaving, 7);
  const auto magic = PageLayout::kFirstMagic;
  std::memcpy(memory.bytes.data(), &magic, sizeof magic);
  const auto sight = sight_of(memory.layout());
  ASSERT_TRUE(sight);
  EXPECT_EQ(sight->step, 7);
  EXPECT_EQ(sight->spent_s, std::nullopt);
  EXPECT_EQ(sight->thread, -1);
}

TEST(Pages, NoteNothingWhileTheyAreOff) {
  Memory memory;
  Page page(memory.bytes.data());
  page.set_on(false);
  const auto before = sight_of(memory.layout())->changes;
  page.enter(Phase::kForward, 7);
  page.begin_collective("all_reduce", "Float", 5);
  EXPECT_EQ(sight_of(memory.layout())->changes, before);
  page.set_on(true);
  page.enter(Phase::kForward, 8);
  EXPECT_EQ(sight_of(memory.layout())->step, 8);
}

TEST(Pages, ChangeWithEachNote) {
  Memory memory;
  Page page(memory.bytes.data());
  auto before = sight_of(memory.layout())->changes;
  for (const auto& note : {std::function<void()>([&] { page.enter(Phase::kBackward, 1); }),
                           std::function<void()>([&] { page.enter(Phase::kBackward, 1); }),
                           std::function<void()>([&] { page.begin_collective("barrier", "", 0); })}) {
    note();
    const auto now = sight_of(memory.layout())->changes;
    EXPECT_GT(now, before);
    before = now;
  }
}

TEST(Pages, KeepALongNameWithinTheirBounds) {
  Memory memory;
  Page page(memory.bytes.data());
  page.begin_collective(std::string(100, 'x'), "Float", 5);
  EXPECT_EQ(sight_of(memory.layout())->collective.what, std::string(31, 'x'));
  page.begin_collective("y", "", 6);
  EXPECT_EQ(sight_of(memory.layout())->collective.what, "y");
}

TEST(Pages, NeverShowACollectiveInHalves) {
  Memory memory;
  Page page(memory.bytes.data());
  page.begin_collective("a", "", 1);
  std::atomic<bool> is_over = false;
  std::thread writer([&] {
    for (std::int64_t i = 2; !is_over; ++i) page.begin_collective(i % 2 == 0 ? "even even even" : "odd", "", i);
  });
  int whole = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto sight = sight_of(memory.layout());
    if (!sight) continue;
    ++whole;
    const auto& seen = sight->collective;
    EXPECT_EQ(static_cast<std::int64_t>(seen.number), seen.elements);
    EXPECT_EQ(seen.what, seen.number == 1 ? "a" : seen.number % 2 == 0 ? "even even even" : "odd");
  }
  is_over = true;
  writer.join();
  EXPECT_GT(whole, 0);
}

TEST(Pages, OfGarbageAreReadWithoutHarm) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    Memory memory;
    for (auto& byte : memory.bytes) byte = static_cast<std::byte>(random());
    EXPECT_EQ(sight_of(memory.layout()), std::nullopt);
    const auto magic = PageLayout::kMagic;
    std::memcpy(memory.bytes.data(), &magic, sizeof magic);
    const auto sight = sight_of(memory.layout());
    if (sight) name_of(sight->phase);
  }
}

TEST(SharedPages, AreReadByTheirParent) {
  const SharedPage shared;
  EXPECT_EQ(shared.sight(), std::nullopt);
  const FileDescriptor file(::open(shared.give().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(file);
  void* const memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  Page page(memory);
  page.enter(Phase::kSaving, 7);
  ASSERT_TRUE(shared.sight());
  EXPECT_EQ(shared.sight()->step, 7);
  ::munmap(memory, kPageBytes);
}

}  // namespace
}  // namespace lockstep
