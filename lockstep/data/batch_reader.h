// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/shard.h"

namespace lockstep {

/// Memory for one batch: a block for each field, with room for `samples` of them. `owner` keeps it alive.
struct BatchMemory {
  std::vector<std::byte*> fields;
  std::shared_ptr<void> owner;
};

/// Gives memory for `samples` samples, perhaps 0. Called on the thread that calls the loader, never on a worker; what
/// it gave is released there too.
using BatchAllocator = std::function<BatchMemory(std::int64_t samples)>;

/// One rank's part of a global batch, decoded.
struct LoadedBatch {
  std::int64_t epoch = 0;
  std::int64_t index = 0;           ///< Of the global batch within the epoch.
  std::int64_t first_place = 0;     ///< In the epoch's order, of the global batch.
  std::int64_t global_samples = 0;  ///< Of all ranks; first_place + global_samples is where the next one begins.
  std::vector<std::int64_t> ids;    ///< This rank's samples, in order; empty where its part is.
  BatchMemory memory;               ///< Rows in the order of `ids`.
};

struct BatchReaderOptions {
  std::int64_t global_batch = 1;  ///< Samples of all shards together.
  Shard shard{};
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;  ///< Leave out an epoch's last batch where it is short.
  int workers = -1;        ///< Threads that decode; 0 decodes in next(); -1: 0 for a source in memory, else 2.
  int prefetch = 2;        ///< Batches decoded ahead, at least 1 where there are workers.
};

/// Reads batches in the epoch's order, ahead of the caller by at most `prefetch`. Ranks, workers and prefetch change
/// when a sample is read, never what it holds.
///
/// Workers go on with the next epoch's first batches while the caller still uses this one's last. Several share one
/// batch, and a caller that has to wait decodes too. Threads: one caller. An exception in a worker surfaces from the
/// next() that would have returned its batch, as the same kind of Error with the sample's name before the fact (kBug
/// where it was no Error); of several in one batch, the one of its first such sample. next() then repeats it until
/// seek() is called.
class BatchReader {
 public:
  /// `source` must outlive the loader.
  /// Throws: Error(kUsage) where an option is out of range, or an epoch has no batch for `drop_last`; Error(kData)
  /// where the source is empty; Error(kEnvironment) where the system gives no more threads.
  BatchReader(const SampleSource& source, BatchReaderOptions options, BatchAllocator allocate);
  ~BatchReader();
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  /// As they are used: -1 workers are settled.
  const BatchReaderOptions& options() const;

  /// Global batches of an epoch.
  std::int64_t batches() const;

  /// Makes `batch` of `epoch` the next one; batches() stands for the epoch's end. Workers begin with it at once. Costs
  /// the same at any place: nothing before it is read. Without a call, the first is batch 0 of epoch 0.
  ///
  /// Blocks: until no worker uses what was read ahead, one sample's reading at most; not at all where `batch` is the
  /// next already. Throws: Error(kUsage) where there is no such place; what the allocator throws.
  void seek(std::int64_t epoch, std::int64_t batch);

  /// The same for the batch that begins at `place` of the epoch's order, so that a run goes on without missing or
  /// repeating a sample where global_batch has changed. What is left of the epoch is cut into batches from there.
  void seek_place(std::int64_t epoch, std::int64_t place);

  /// The next batch; nothing after an epoch's last one. The call after that begins the following epoch.
  /// Blocks: until it is decoded.
  /// Throws: what the source's read() throws, as said above; what the allocator throws.
  std::optional<LoadedBatch> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
