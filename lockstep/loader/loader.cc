// SPDX-License-Identifier: Apache-2.0
#include "lockstep/loader/loader.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/index_source.h"
#include "lockstep/device/dtype.h"

namespace lockstep {
namespace {

BatchAllocator tensor_allocator(const std::vector<Field>& fields, std::shared_ptr<const bool> is_pinned) {
  return [&fields, is_pinned](std::int64_t samples) {
    auto tensors = std::make_shared<std::vector<at::Tensor>>();
    BatchMemory memory;
    for (const auto& field : fields) {
      std::vector<std::int64_t> shape{samples};
      shape.insert(shape.end(), field.shape.begin(), field.shape.end());
      const auto options = at::TensorOptions(scalar_type_of(field.dtype)).pinned_memory(*is_pinned);
      tensors->push_back(at::empty(shape, options));
      memory.fields.push_back(static_cast<std::byte*>(tensors->back().mutable_data_ptr()));
    }
    memory.owner = std::move(tensors);
    return memory;
  };
}

}  // namespace

Batch batch_of_one(const SampleSource& source, const SampleKey& key) {
  const auto memory = tensor_allocator(source.fields(), std::make_shared<bool>(false))(1);
  source.read(key, memory.fields);
  return Batch{.fields = std::move(*std::static_pointer_cast<std::vector<at::Tensor>>(memory.owner)),
               .ids = {key.id},
               .epoch = key.epoch,
               .global_samples = 1};
}

Loader::Loader(std::shared_ptr<const SampleSource> source, LoaderOptions options)
    : source_(std::move(source)),
      core_(std::make_unique<BatchReader>(*source_, options, tensor_allocator(source_->fields(), is_pinned_))) {}

void Loader::cache_on(const c10::Device& device) {
  auto fixed = source_->fixed();
  LOCKSTEP_ASSERT(fixed.has_value());
  auto options = core_->options();
  kept_ = std::make_shared<const DeviceCache>(*source_, *fixed, device, options.workers);
  places_ = index_source(*source_, std::move(*fixed));
  options.workers = 0;
  const auto not_pinned = std::make_shared<bool>(false);
  core_ = std::make_unique<BatchReader>(*places_, options, tensor_allocator(places_->fields(), not_pinned));
}

void Loader::seek(std::int64_t epoch, std::int64_t first) {
  placed_.clear();
  core_->seek_place(epoch, first);
}

// Copies the indices of several batches to the device at once. They are few bytes, and so most steps copy nothing.
void Loader::read_places_ahead() {
  constexpr std::size_t kBatchesAtOnce = 16;
  std::vector<at::Tensor> places;
  std::int64_t rows = 0;
  while (placed_.size() < kBatchesAtOnce && (placed_.empty() || placed_.back())) {
    auto batch = next_read();
    if (batch) {
      places.push_back(batch->fields[0]);
      rows += batch->samples();
    }
    placed_.push_back(std::move(batch));
  }
  if (places.empty()) return;
  auto together = at::empty({rows, places[0].size(1)}, places[0].options().pinned_memory(*is_pinned_));
  at::cat_out(together, places);
  together = together.to(kept_->device(), at::kLong, /*non_blocking=*/true);
  std::int64_t first = 0;
  for (auto& batch : placed_) {
    if (!batch) break;
    batch->fields[0] = together.narrow(0, first, batch->samples());
    first += batch->samples();
  }
}

Batch head(Batch batch, std::int64_t samples) {
  for (auto& field : batch.fields) field = field.narrow(0, 0, samples);
  batch.ids.resize(static_cast<std::size_t>(samples));
  batch.global_samples = samples;
  return batch;
}

Batch to_device(Batch batch, const c10::Device& device) {
  if (device.is_cpu()) return materialize(std::move(batch));
  for (auto& field : batch.fields) field = field.to(field.options().device(device), /*non_blocking=*/true);
  return materialize(std::move(batch));
}

Batch materialize(Batch batch) {
  if (const auto kept = std::exchange(batch.kept, nullptr)) batch.fields = kept->gathered(batch.fields[0]);
  return batch;
}

std::optional<Batch> Loader::next() {
  if (!kept_) return next_read();
  if (placed_.empty()) read_places_ahead();
  auto batch = std::move(placed_.front());
  placed_.pop_front();
  return batch;
}

std::optional<Batch> Loader::next_read() {
  auto loaded = core_->next();
  if (!loaded) return std::nullopt;
  const IndexRange whole{loaded->first_place, loaded->first_place + loaded->global_samples};
  return Batch{.fields = std::move(*std::static_pointer_cast<std::vector<at::Tensor>>(loaded->memory.owner)),
               .ids = std::move(loaded->ids),
               .epoch = loaded->epoch,
               .index = loaded->index,
               .first_index = part_of(whole, options().shard).begin,
               .global_samples = loaded->global_samples,
               .kept = kept_};
}

}  // namespace lockstep
