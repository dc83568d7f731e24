// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/loader.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/core_places.h"
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
      core_(std::make_unique<CoreLoader>(*source_, options, tensor_allocator(source_->fields(), is_pinned_))) {}

void Loader::keep_on(const c10::Device& device) {
  auto fixed = source_->fixed();
  LOCKSTEP_ASSERT(fixed.has_value());
  auto options = core_->options();
  kept_ = std::make_shared<const KeptSamples>(*source_, *fixed, device, options.workers);
  places_ = places_of(*source_, std::move(*fixed));
  options.workers = 0;
  core_ = std::make_unique<CoreLoader>(*places_, options, tensor_allocator(places_->fields(), is_pinned_));
}

Batch first_of(Batch batch, std::int64_t samples) {
  for (auto& field : batch.fields) field = field.narrow(0, 0, samples);
  batch.ids.resize(static_cast<std::size_t>(samples));
  batch.global_samples = samples;
  return batch;
}

Batch moved(Batch batch, const c10::Device& device) {
  if (device.is_cpu()) return whole(std::move(batch));
  for (auto& field : batch.fields) field = field.to(field.options().device(device), /*non_blocking=*/true);
  return whole(std::move(batch));
}

Batch whole(Batch batch) {
  if (const auto kept = std::exchange(batch.kept, nullptr)) batch.fields = kept->gathered(batch.fields[0]);
  return batch;
}

std::optional<Batch> Loader::next() {
  auto loaded = core_->next();
  if (!loaded) return std::nullopt;
  const PlaceRange whole{loaded->first_place, loaded->first_place + loaded->global_samples};
  return Batch{.fields = std::move(*std::static_pointer_cast<std::vector<at::Tensor>>(loaded->memory.owner)),
               .ids = std::move(loaded->ids),
               .epoch = loaded->epoch,
               .index = loaded->index,
               .place = part_of(whole, options().shard).begin,
               .global_samples = loaded->global_samples,
               .kept = kept_};
}

}  // namespace lockstep
