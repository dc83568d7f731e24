// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reads batches of samples in the epoch's order, on its own threads and without LibTorch. Loader adds tensors.
///
///     lockstep::BatchReader reader(*source, {.global_batch = 64}, [&](std::int64_t samples) {
///       auto memory = std::make_shared<std::vector<std::byte>>(samples * source->fields()[0].bytes());
///       return lockstep::BatchMemory{{memory->data()}, memory};  // the source has one field
///     });
///     while (auto batch = reader.next()) std::cout << batch->ids.size() << " samples\n";

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/shard.h"

namespace lockstep {

/// Memory for one batch, with one block per field, each for all samples. `owner` keeps it alive.
struct BatchMemory {
  std::vector<std::byte*> fields;
  std::shared_ptr<void> owner;
};

/// Returns memory for `samples` samples. The number may be 0.
/// Threads: called on the thread that calls the reader, never on a worker. The memory is released there too.
using BatchAllocator = std::function<BatchMemory(std::int64_t samples)>;

/// One rank's part of a global batch, decoded.
struct LoadedBatch {
  std::int64_t epoch = 0;
  std::int64_t index = 0;           ///< Index of the global batch within the epoch.
  std::int64_t first_place = 0;     ///< Index of the global batch's first sample in the epoch's order.
  std::int64_t global_samples = 0;  ///< Samples of all ranks. The next batch begins at first_place + global_samples.
  std::vector<std::int64_t> ids;    ///< This rank's samples, in order. Empty if its part is empty.
  BatchMemory memory;               ///< The rows, in the order of `ids`.
};

struct BatchReaderOptions {
  std::int64_t global_batch = 1;  ///< Samples of all shards together, in one batch.
  Shard shard{};
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;  ///< Leave out an epoch's last batch if it is short.
  int workers = -1;        ///< Number of decoding threads. With 0, next() decodes. -1 is 0 for a source in memory, else
                           ///< 2.
  int prefetch = -1;       ///< Number of batches decoded ahead, at least 1 if there are workers. -1 is 2, or more if a
                           ///< batch has few rows, so that each worker has a sample and a next one.
};

/// Reads batches in the epoch's order, ahead of the caller by at most `prefetch`. Ranks, workers and prefetch change
/// when a sample is read, never what it holds.
///
/// Workers continue with the next epoch's first batches while the caller still uses this one's last. Several workers
/// share one batch, and a caller that has to wait decodes too.
///
/// The next() that would have returned a batch throws the exception of a worker that decoded it. It is the same kind
/// of Error with the sample's name before the fact, or kBug if it was no Error. Of several exceptions in one batch,
/// that of the first such sample is thrown. next() then repeats it until seek() is called.
///
/// Threads: one caller.
class BatchReader {
 public:
  /// `source` must outlive the reader.
  /// Throws: Error(kUsage) if an option is out of range, or if `drop_last` leaves an epoch without a batch;
  /// Error(kData) if the source is empty; Error(kEnvironment) if the system gives no more threads.
  BatchReader(const SampleSource& source, BatchReaderOptions options, BatchAllocator allocate);
  ~BatchReader();
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  /// Returns the options in use. `workers` and `prefetch` are never -1 here.
  const BatchReaderOptions& options() const;

  /// Returns the number of global batches in an epoch.
  std::int64_t batches() const;

  /// Makes `batch` of `epoch` the next one. `batch` may be batches(), which is the end of the epoch. Workers begin with
  /// it at once. The cost is the same for any batch, since nothing before it is read. Without a call, the first is
  /// batch 0 of epoch 0.
  ///
  /// Blocks: until no worker uses the batches read ahead, at most for the time of reading one sample; not at all if
  ///         `batch` is already the next one.
  /// Throws: Error(kUsage) if there is no such batch; what the allocator throws.
  void seek(std::int64_t epoch, std::int64_t batch);

  /// Makes the next batch begin at index `place` of the epoch's order, and cuts the rest of the epoch into batches from
  /// there. So a run can resume with another global_batch without missing or repeating a sample.
  void seek_place(std::int64_t epoch, std::int64_t place);

  /// Returns the next batch, or nothing after an epoch's last one. The call after that begins the following epoch.
  /// Blocks: until the batch is decoded.
  /// Throws: the source's read() errors, as described above; the allocator's.
  std::optional<LoadedBatch> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
