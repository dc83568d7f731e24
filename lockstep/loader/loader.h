// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Batches of this rank as tensors, read ahead by threads.
///
///     std::shared_ptr source = lockstep::synthetic_source({.samples = 2000});
///     lockstep::Loader loader(source, {.global_batch = 64, .shard = {world.rank(), world.world()}});
///     for (int epoch = 0; epoch < 10; ++epoch) {
///       while (auto next = loader.next()) {
///         auto batch = lockstep::to_device(*next, world.device().device);
///         if (batch.samples() > 0) loss = net->forward(batch.input()).mean();
///       }
///     }

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/data/batch_reader.h"
#include "lockstep/data/sample_source.h"
#include "lockstep/loader/device_cache.h"

namespace lockstep {

/// One rank's part of a global batch, as tensors.
struct Batch {
  std::vector<at::Tensor> fields;  ///< One for each Field of the source, [samples, field's shape…].
  std::vector<std::int64_t> ids;   ///< Ids of the samples, by row.
  std::int64_t epoch = 0;
  std::int64_t index = 0;           ///< Index of the global batch within the epoch.
  std::int64_t first_index = 0;     ///< Index of the first row in the epoch's order.
  std::int64_t global_samples = 0;  ///< Samples of all ranks.
  /// If not null, the only field holds indices into this cache, and materialize() gathers the source's fields.
  std::shared_ptr<const DeviceCache> kept{};

  std::int64_t samples() const { return static_cast<std::int64_t>(ids.size()); }
  const at::Tensor& input() const { return fields.at(0); }
  const at::Tensor& target() const { return fields.at(1); }
};

/// Reads one sample as a batch of its own.
/// Throws: the errors of the source's read().
Batch batch_of_one(const SampleSource& source, const SampleKey& key);

using LoaderOptions = BatchReaderOptions;

/// A BatchReader that returns tensors. Samples are decoded into the tensors' own memory.
class Loader {
 public:
  /// Throws: as BatchReader.
  Loader(std::shared_ptr<const SampleSource> source, LoaderOptions options);

  const SampleSource& source() const { return *source_; }
  const std::shared_ptr<const SampleSource>& shared_source() const { return source_; }
  const LoaderOptions& options() const { return core_->options(); }

  /// Makes the next batch begin at index `first` of `epoch`'s order. The cost is the same for any index.
  void seek(std::int64_t epoch, std::int64_t first = 0);

  /// Returns the next batch, or nothing after an epoch's last one. The call after that begins the following epoch.
  /// Blocks: until the batch is decoded.
  std::optional<Batch> next();

  /// Reads all samples into `device`'s memory. Call it before the first seek() or next(). Batches then hold only
  /// indices, which are on the device already, and materialize() gathers the samples there. The source must be fixed().
  /// Blocks: until all samples are there. Throws: as next().
  void cache_on(const c10::Device& device);

  /// Decodes batches from here on into pinned memory. Call it once the device is in use.
  void pin_memory() { *is_pinned_ = true; }

 private:
  std::optional<Batch> next_read();
  void read_places_ahead();

  std::shared_ptr<const SampleSource> source_;
  std::shared_ptr<bool> is_pinned_ = std::make_shared<bool>(false);
  std::unique_ptr<const SampleSource> places_;  ///< The source of indices, if a device keeps the samples.
  std::shared_ptr<const DeviceCache> kept_;
  std::deque<std::optional<Batch>> placed_;  ///< Batches with indices on the device. An epoch's end is nothing.
  std::unique_ptr<BatchReader> core_;
};

/// Returns the batch with the source's fields. If a device keeps the samples, they are gathered there. Any other batch
/// is unchanged.
Batch materialize(Batch batch);

/// Returns the first rows of a batch as a whole batch of their own, over the same memory.
Batch head(Batch batch, std::int64_t samples);

/// Returns the materialized batch with its tensors on `device`. The host does not wait for copies from pinned memory.
Batch to_device(Batch batch, const c10::Device& device);

}  // namespace lockstep
