// SPDX-License-Identifier: Apache-2.0
// The fault: with a batch of one sample, at most three samples were read at once, however many workers there were.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "lockstep/data/batch_reader.h"

namespace lockstep {
namespace {

/// A source whose read() returns once `wanted` threads are in read() at the same time, or after a time if that never
/// happens.
class Crowd : public SampleSource {
 public:
  explicit Crowd(int wanted = 0) : wanted_(wanted) {}

  std::int64_t size() const override { return 200; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name_of(std::int64_t id) const override { return std::to_string(id); }
  void read(const SampleKey&, std::span<std::byte* const>) const override {
    std::unique_lock lock(mutex_);
    has_met_ = has_met_ || ++inside_ >= wanted_;
    came_.notify_all();
    came_.wait_for(lock, std::chrono::seconds(5), [&] { return has_met_; });
    --inside_;
  }
  bool has_met() const {
    const std::lock_guard lock(mutex_);
    return has_met_;
  }

 private:
  int wanted_;
  std::vector<Field> fields_ = {{"input", "U8", {1}}};
  mutable std::mutex mutex_;
  mutable std::condition_variable came_;
  mutable int inside_ = 0;
  mutable bool has_met_ = false;
};

BatchMemory memory_for(std::int64_t samples) {
  auto block = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(samples));
  return {.fields = {block->data()}, .owner = block};
}

TEST(BatchReader, ReadsAsManyBatchesOfOneAheadAsItHasWorkersFor) {
  const Crowd source(14);
  BatchReader reader(source, {.global_batch = 1, .workers = 16}, memory_for);
  reader.next();
  EXPECT_TRUE(source.has_met()) << "want 14 samples in flight";
  EXPECT_EQ(reader.options().prefetch, 2 * 16);
}

TEST(BatchReader, ReadsTwoBatchesAheadWhereTheyAreLarge) {
  const Crowd source;
  const auto prefetch = [&](BatchReaderOptions options) {
    return BatchReader(source, options, memory_for).options().prefetch;
  };
  EXPECT_EQ(prefetch({.global_batch = 64, .workers = 4}), 2);
  EXPECT_EQ(prefetch({.global_batch = 6, .workers = 8}), 3);
  EXPECT_EQ(prefetch({.global_batch = 6, .shard = {0, 2}, .workers = 8}), 6);
  EXPECT_EQ(prefetch({.global_batch = 6, .workers = 8, .prefetch = 1}), 1);
  EXPECT_EQ(prefetch({.global_batch = 6, .workers = 0}), 0);
}

}  // namespace
}  // namespace lockstep
