// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/wait_note.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "lockstep/data/batch_reader.h"

namespace lockstep {
namespace {

/// Samples whose reading a test can hold up.
class HeldSource : public SampleSource {
 public:
  std::int64_t size() const override { return 64; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name_of(std::int64_t id) const override { return "sample " + std::to_string(id); }
  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    before_read(key.id);
    *to[0] = static_cast<std::byte>(key.id);
  }

  std::function<void(std::int64_t)> before_read = [](std::int64_t) {};

 private:
  std::vector<Field> fields_ = {{"input", "U8", {}}};
};

BatchMemory some_memory(std::int64_t samples) {
  auto block = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(samples));
  return {.fields = {block->data()}, .owner = block};
}

TEST(WaitNotes, NameTheSampleThatAWorkerDoesNotFinish) {
  constexpr std::int64_t kStuck = 5;
  HeldSource source;
  std::latch is_stuck(1);
  std::latch is_named(1);
  source.before_read = [&](std::int64_t id) {
    if (id != kStuck) return;
    is_stuck.count_down();
    is_named.wait();
  };
  BatchReader reader(source, {.global_batch = 64, .shuffle = false, .workers = 2, .prefetch = 1}, some_memory);
  std::vector<std::int64_t> named;
  const WaitNote note([&](std::int64_t id) {
    named.push_back(id);
    if (id == kStuck) is_named.count_down();
  });
  reader.seek(0, 0);
  is_stuck.wait();  // So that a worker is at it, and not the caller.
  const auto batch = reader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(named.back(), kStuck) << "it is the last that the caller waits for";
}

TEST(WaitNotes, NameEachSampleThatTheCallerReads) {
  HeldSource source;
  std::vector<std::int64_t> named;
  std::vector<std::int64_t> read;
  source.before_read = [&](std::int64_t id) {
    read.push_back(id);
    EXPECT_EQ(named, read) << "it is named before it is read";
  };
  BatchReader reader(source, {.global_batch = 4, .workers = 0}, some_memory);
  const WaitNote note([&](std::int64_t id) { named.push_back(id); });
  reader.next();
  reader.next();
  EXPECT_EQ(named.size(), 8U);
}

TEST(WaitNotes, TellTheNewestOfTheirThread) {
  EXPECT_EQ(WaitNote::current(), nullptr);
  std::vector<int> told;
  const WaitNote outer([&](std::int64_t) { told.push_back(1); });
  {
    const WaitNote inner([&](std::int64_t) { told.push_back(2); });
    WaitNote::current()->tell(0);
    std::thread([] { EXPECT_EQ(WaitNote::current(), nullptr); }).join();
  }
  WaitNote::current()->tell(0);
  EXPECT_EQ(told, (std::vector<int>{2, 1}));
}

}  // namespace
}  // namespace lockstep
