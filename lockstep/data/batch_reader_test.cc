// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/batch_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <latch>
#include <map>
#include <mutex>
#include <new>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "lockstep/base/checksum.h"
#include "lockstep/data/epoch_order.h"

namespace lockstep {
namespace {

/// A source in which each sample holds a hash of its key. So a row shows by which key it was read.
class HashSource : public SampleSource {
 public:
  explicit HashSource(std::int64_t size) : size_(size) {}

  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string name_of(std::int64_t id) const override { return "hash #" + std::to_string(id); }
  bool is_in_memory() const override { return claims_memory; }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    if (before_read) before_read(key);
    reads.fetch_add(1);
    reads.notify_all();
    const std::uint64_t hash = hash_of(key);
    std::memcpy(to[0], &hash, sizeof hash);
    const auto last_byte = static_cast<std::byte>(key.id & 0xff);
    std::memcpy(to[1], &last_byte, 1);
  }

  static std::uint64_t hash_of(const SampleKey& key) {
    return mixed(mixed(key.seed, static_cast<std::uint64_t>(key.epoch)), static_cast<std::uint64_t>(key.id));
  }

  void wait_for_reads(int count) const {
    for (int now = reads.load(); now < count; now = reads.load()) reads.wait(now);
  }

  std::function<void(const SampleKey&)> before_read;
  mutable std::atomic<int> reads = 0;
  bool claims_memory = false;

 private:
  std::int64_t size_;
  std::vector<Field> fields_ = {{"input", "U64", {1}}, {"target", "U8", {}}};
};

BatchMemory heap_memory(std::int64_t samples) {
  auto block = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(samples * 9));
  return {.fields = {block->data(), block->data() + samples * 8}, .owner = block};
}

/// Returns the ids of a batch. Checks that each row holds the sample with its id.
std::vector<std::int64_t> checked_ids(const LoadedBatch& batch, std::uint64_t seed) {
  for (std::size_t row = 0; row < batch.ids.size(); ++row) {
    std::uint64_t hash = 0;
    std::memcpy(&hash, batch.memory.fields[0] + row * 8, 8);
    EXPECT_EQ(hash, HashSource::hash_of({seed, batch.epoch, batch.ids[row]}));
    EXPECT_EQ(batch.memory.fields[1][row], static_cast<std::byte>(batch.ids[row] & 0xff));
  }
  return batch.ids;
}

/// Returns the ids that a batch must hold.
std::vector<std::int64_t> wanted_ids(std::int64_t size, const BatchReaderOptions& options, std::int64_t epoch,
                                     std::int64_t batch) {
  const IndexRange part = part_of(global_batch_places(size, batch, options.global_batch), options.shard);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(part.size()));
  EpochOrder(size, options.seed, epoch, options.shuffle).take(part.begin, ids);
  return ids;
}

TEST(BatchReader, GivesTheSameBatchesForAnyRanksWorkersAndPrefetch) {
  const HashSource source(103);
  for (const int world : {1, 2, 3, 4}) {
    for (const int workers : {0, 1, 2, 4}) {
      for (const int prefetch : {1, 2, 5}) {
        for (int rank = 0; rank < world; ++rank) {
          const BatchReaderOptions options{
              .global_batch = 10, .shard = {rank, world}, .seed = 7, .workers = workers, .prefetch = prefetch};
          BatchReader loader(source, options, heap_memory);
          for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
            std::int64_t index = 0;
            while (const auto batch = loader.next()) {
              EXPECT_EQ(batch->epoch, epoch);
              EXPECT_EQ(batch->index, index);
              EXPECT_EQ(batch->global_samples, index == 10 ? 3 : 10);
              EXPECT_EQ(checked_ids(*batch, 7), wanted_ids(103, options, epoch, index));
              ++index;
            }
            EXPECT_EQ(index, 11);
          }
        }
      }
    }
  }
}

/// Returns the samples of one epoch over all ranks, batch by batch and within a batch rank by rank, as evaluation reads
/// them.
std::vector<std::int64_t> evaluated_ids(const SampleSource& source, std::int64_t global_batch, int world) {
  std::vector<std::unique_ptr<BatchReader>> ranks;
  for (int rank = 0; rank < world; ++rank) {
    const BatchReaderOptions options{.global_batch = global_batch, .shard = {rank, world}, .shuffle = false};
    ranks.push_back(std::make_unique<BatchReader>(source, options, heap_memory));
  }
  std::vector<std::int64_t> ids;
  for (std::int64_t batch = 0; batch < ranks[0]->batches(); ++batch) {
    std::int64_t global_samples = 0;
    const std::size_t before = ids.size();
    for (const auto& rank : ranks) {
      const auto part = rank->next();
      global_samples = part->global_samples;
      const auto own = checked_ids(*part, 0);
      ids.insert(ids.end(), own.begin(), own.end());
    }
    EXPECT_EQ(static_cast<std::int64_t>(ids.size() - before), global_samples);
  }
  for (const auto& rank : ranks) EXPECT_FALSE(rank->next());
  return ids;
}

TEST(BatchReader, GivesEachSampleOfASmallSetOnceAndInOrderOnAnyRanks) {
  for (std::int64_t size = 1; size <= 17; ++size) {
    const HashSource source(size);
    std::vector<std::int64_t> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    for (const std::int64_t global_batch : {1, 3, 8, 20}) {
      for (int world = 1; world <= 4; ++world) {
        EXPECT_EQ(evaluated_ids(source, global_batch, world), all) << size << " " << global_batch << " " << world;
      }
    }
  }
}

TEST(BatchReader, ReadsNoMoreAtALateBatchThanAtAnEarlyOne) {
  for (const int workers : {0, 2}) {
    const int wanted = workers > 0 ? 3 * 64 : 64;
    for (const std::int64_t batch : {1, 1'000'000}) {
      const HashSource source(100'000'000);
      {
        BatchReader loader(source, {.global_batch = 64, .workers = workers, .prefetch = 2}, heap_memory);
        loader.seek(0, batch);
        EXPECT_EQ(loader.next()->index, batch);
        source.wait_for_reads(wanted);
      }
      EXPECT_EQ(source.reads, wanted);
    }
  }
}

TEST(BatchReader, ReadsAheadByPrefetchAndNoFurther) {
  const HashSource source(1000);
  std::atomic<int> allocations = 0;
  BatchReader loader(source, {.global_batch = 10, .workers = 2, .prefetch = 3}, [&](std::int64_t samples) {
    ++allocations;
    return heap_memory(samples);
  });
  loader.next();
  source.wait_for_reads(4 * 10);
  EXPECT_EQ(allocations, 4) << "one delivered, three ahead";
}

TEST(BatchReader, ReadsTheNextEpochWhileThisOnesLastBatchIsInUse) {
  HashSource source(20);
  std::latch next_epoch_read(10);
  source.before_read = [&](const SampleKey& key) {
    if (key.epoch == 1) next_epoch_read.count_down();
  };
  BatchReader loader(source, {.global_batch = 10, .workers = 2, .prefetch = 1}, heap_memory);
  loader.next();
  EXPECT_EQ(loader.next()->index, 1);
  next_epoch_read.wait();
  EXPECT_FALSE(loader.next());
  EXPECT_EQ(loader.next()->epoch, 1);
}

TEST(BatchReader, SharesOneBatchAmongWorkersAndTheWaitingCaller) {
  HashSource source(64);
  std::latch all_are_reading(3);
  std::mutex mutex;
  std::set<std::thread::id> readers;
  source.before_read = [&](const SampleKey&) {
    bool is_first = false;
    {
      const std::lock_guard lock(mutex);
      is_first = readers.insert(std::this_thread::get_id()).second;
    }
    if (is_first) all_are_reading.arrive_and_wait();
  };
  BatchReader loader(source, {.global_batch = 64, .workers = 2, .prefetch = 1}, heap_memory);
  checked_ids(*loader.next(), 0);
  EXPECT_EQ(readers.size(), 3U);
  EXPECT_TRUE(readers.contains(std::this_thread::get_id()));
}

TEST(BatchReader, ReadsNothingAheadForASourceInMemory) {
  HashSource source(100);
  source.claims_memory = true;
  BatchReader loader(source, {.global_batch = 10}, heap_memory);
  loader.seek(0, 3);
  EXPECT_EQ(source.reads, 0);
  loader.next();
  EXPECT_EQ(source.reads, 10);
}

TEST(BatchReader, GoesWhereverItIsToldWhileWorkersAreBusy) {
  const HashSource source(5000);
  std::mt19937 random(1);
  for (const int workers : {0, 1, 4}) {
    const BatchReaderOptions options{.global_batch = 64, .seed = 3, .workers = workers, .prefetch = 3};
    BatchReader loader(source, options, heap_memory);
    for (int jump = 0; jump < 200; ++jump) {
      const auto epoch = static_cast<std::int64_t>(random() % 3);
      const auto index = static_cast<std::int64_t>(random() % 79);
      loader.seek(epoch, index);
      for (std::int64_t i = index; i < std::min<std::int64_t>(79, index + random() % 4); ++i) {
        const auto batch = loader.next();
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->epoch, epoch);
        EXPECT_EQ(checked_ids(*batch, 3), wanted_ids(5000, options, epoch, i));
      }
    }
  }
}

TEST(BatchReader, KeepsWhatItReadAheadWhenToldToGoWhereItIs) {
  HashSource source(25);
  std::mutex mutex;
  std::map<std::pair<std::int64_t, std::int64_t>, int> readings;
  source.before_read = [&](const SampleKey& key) {
    const std::lock_guard lock(mutex);
    ++readings[{key.epoch, key.id}];
  };
  {
    BatchReader loader(source, {.global_batch = 10, .workers = 2, .prefetch = 2}, heap_memory);
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      loader.seek(epoch, 0);
      while (loader.next()) {
      }
    }
  }
  for (const auto& [sample, count] : readings) EXPECT_EQ(count, 1) << sample.first << ' ' << sample.second;
}

TEST(BatchReader, GoesOnAtAnyPlaceWithAnotherGlobalBatch) {
  const HashSource source(100);
  for (const int workers : {0, 2}) {
    for (const bool drop_last : {false, true}) {
      std::vector<std::int64_t> ids;
      std::int64_t place = 0;
      {
        BatchReader before(source, {.global_batch = 12, .seed = 2, .workers = workers}, heap_memory);
        for (int i = 0; i < 3; ++i) {
          const auto batch = before.next();
          ids.insert(ids.end(), batch->ids.begin(), batch->ids.end());
          EXPECT_EQ(batch->first_place, place);
          place += batch->global_samples;
        }
      }
      BatchReader after(source, {.global_batch = 11, .seed = 2, .drop_last = drop_last, .workers = workers},
                        heap_memory);
      after.seek_place(0, place);
      while (const auto batch = after.next()) ids.insert(ids.end(), batch->ids.begin(), batch->ids.end());
      std::vector<std::int64_t> wanted(drop_last ? 36 + 5 * 11 : 100);
      EpochOrder(100, 2, 0).take(0, wanted);
      EXPECT_EQ(ids, wanted);
      EXPECT_EQ(after.next()->epoch, 1);
    }
  }
}

TEST(BatchReader, ResumesAtAnEpochsEnd) {
  const HashSource source(20);
  BatchReader loader(source, {.global_batch = 10, .workers = 1}, heap_memory);
  loader.seek(4, 2);
  EXPECT_FALSE(loader.next());
  EXPECT_EQ(loader.next()->epoch, 5);
}

TEST(BatchReader, CountsBatchesOfWhichItsPartIsEmpty) {
  const HashSource source(2);
  for (const int workers : {0, 2}) {
    std::vector<std::int64_t> asked_for;
    BatchReader loader(source, {.global_batch = 8, .shard = {3, 4}, .workers = workers}, [&](std::int64_t samples) {
      asked_for.push_back(samples);
      return heap_memory(samples);
    });
    EXPECT_EQ(loader.batches(), 1);
    const auto batch = loader.next();
    ASSERT_TRUE(batch);
    EXPECT_TRUE(batch->ids.empty());
    EXPECT_EQ(batch->global_samples, 2);
    EXPECT_EQ(asked_for.front(), 0);
    EXPECT_FALSE(loader.next());
  }
}

TEST(BatchReader, AllocatesAndReleasesOnTheCallersThread) {
  const HashSource source(1000);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> strangers = 0;
  {
    BatchReader loader(source, {.global_batch = 10, .workers = 4, .prefetch = 4}, [&](std::int64_t samples) {
      if (std::this_thread::get_id() != caller) ++strangers;
      BatchMemory memory = heap_memory(samples);
      memory.owner = std::shared_ptr<void>(nullptr, [&strangers, caller, kept = memory.owner](void*) {
        if (std::this_thread::get_id() != caller) ++strangers;
      });
      return memory;
    });
    for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
      loader.seek(epoch, epoch);
      loader.next();
    }
  }
  EXPECT_EQ(strangers, 0);
}

TEST(BatchReader, LosesNoBatchWhenMemoryRunsOut) {
  const HashSource source(100);
  for (const int workers : {0, 2}) {
    int calls = 0;
    const BatchReaderOptions options{.global_batch = 10, .workers = workers};
    BatchReader loader(source, options, [&](std::int64_t samples) {
      if (++calls % 3 == 0) throw std::bad_alloc();
      return heap_memory(samples);
    });
    for (std::int64_t index = 0; index < 10;) {
      try {
        EXPECT_EQ(checked_ids(*loader.next(), 0), wanted_ids(100, options, 0, index));
        ++index;
      } catch (const std::bad_alloc&) {
      }
    }
    EXPECT_GT(calls, 13);
  }
}

TEST(BatchReader, EndsAtOnceWhileWorkersAreBusy) {
  HashSource source(100'000);
  std::atomic<std::uint64_t> sink = 0;
  source.before_read = [&](const SampleKey& key) {
    std::uint64_t slow = static_cast<std::uint64_t>(key.id);
    for (int i = 0; i < 200'000; ++i) slow = mixed(slow, 1);
    sink += slow;
  };
  {
    BatchReader loader(source, {.global_batch = 10'000, .workers = 4, .prefetch = 3}, heap_memory);
    loader.seek(0, 0);
    source.wait_for_reads(1);
    loader.seek(1, 0);
    source.wait_for_reads(source.reads + 1);
  }
  EXPECT_LT(source.reads, 5000) << "30 000 were asked for";
}

}  // namespace
}  // namespace lockstep
