// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  std::vector<at::Tensor> fields;  ///< One for each Field of the source: [samples, field's shape…].
  std::vector<std::int64_t> ids;   ///< Of the samples, by row.
  std::int64_t epoch = 0;
  std::int64_t index = 0;           ///< Of the global batch within the epoch.
  std::int64_t first_index = 0;     ///< Index of the first row in the epoch's order.
  std::int64_t global_samples = 0;  ///< Of all ranks.
  /// Where not null, the one field is of places among these: materialize() makes the source's fields of it.
  std::shared_ptr<const DeviceCache> kept{};

  std::int64_t samples() const { return static_cast<std::int64_t>(ids.size()); }
  const at::Tensor& input() const { return fields.at(0); }
  const at::Tensor& target() const { return fields.at(1); }
};

/// One sample as a batch of its own.
/// Throws: what the source's read() throws.
Batch batch_of_one(const SampleSource& source, const SampleKey& key);

using LoaderOptions = BatchReaderOptions;

/// BatchReader with tensors: samples are decoded into the tensors' own memory.
class Loader {
 public:
  /// Throws: as BatchReader.
  Loader(std::shared_ptr<const SampleSource> source, LoaderOptions options);

  const SampleSource& source() const { return *source_; }
  const std::shared_ptr<const SampleSource>& shared_source() const { return source_; }
  const LoaderOptions& options() const { return core_->options(); }

  /// The next batch begins at place `first` of `epoch`'s order. Costs the same at any place.
  void seek(std::int64_t epoch, std::int64_t first = 0);

  /// The next batch; nothing after an epoch's last one.
  /// Blocks: until it is decoded.
  std::optional<Batch> next();

  /// Reads all samples into `device`'s memory, before the first seek() or next(): batches from here on bring their
  /// places alone, which are on the device already, and materialize() makes them there. The source must be fixed().
  /// Blocks: until all are there. Throws: as next().
  void cache_on(const c10::Device& device);

  /// Batches from here on are decoded into memory that a device copies from by itself. The device is in use already.
  void pin_memory() { *is_pinned_ = true; }

 private:
  std::optional<Batch> next_read();
  void read_places_ahead();

  std::shared_ptr<const SampleSource> source_;
  std::shared_ptr<bool> is_pinned_ = std::make_shared<bool>(false);
  std::unique_ptr<const SampleSource> places_;  ///< Where samples are kept.
  std::shared_ptr<const DeviceCache> kept_;
  std::deque<std::optional<Batch>> placed_;  ///< Whose places are on the device, in order; an epoch's end is nothing.
  std::unique_ptr<BatchReader> core_;
};

/// A batch whose samples are kept, on their device, with the source's fields; any other as it is.
Batch materialize(Batch batch);

/// The first rows of a batch, over the same memory, as a whole batch of their own.
Batch head(Batch batch, std::int64_t samples);

/// The materialized batch with its tensors on `device`. Out of pinned memory the host does not wait for the copies.
Batch to_device(Batch batch, const c10::Device& device);

}  // namespace lockstep
