// SPDX-License-Identifier: Apache-2.0
#include "lockstep/loader/device_cache.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "lockstep/data/index_source.h"
#include "lockstep/device/dtype.h"
#include "lockstep/loader/loader.h"

namespace lockstep {
namespace {

// The samples that one copy to the device holds. More would need more memory on the host, and fewer would make the
// copies small and slow.
constexpr std::int64_t kSamplesAtOnce = 256;

// Returns the shape of a cached field, with the margin on all sides.
std::vector<std::int64_t> kept_shape(const Field& field, int margin) {
  auto shape = field.shape;
  if (margin > 0) {
    shape.at(1) += 2 * margin;
    shape.at(2) += 2 * margin;
  }
  return shape;
}

}  // namespace

std::int64_t DeviceCache::bytes_of(const FixedSamples& fixed) {
  std::int64_t bytes = 0;
  const auto& fields = fixed.samples->fields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    Field field = fields[i];
    field.shape = kept_shape(field, i == 0 ? fixed.margin : 0);
    bytes += static_cast<std::int64_t>(field.bytes());
  }
  return bytes * fixed.samples->size();
}

DeviceCache::DeviceCache(const SampleSource& source, const FixedSamples& fixed, const c10::Device& device, int workers)
    : is_moved_(fixed.move != nullptr) {
  const auto& kept = *fixed.samples;
  const auto margin = fixed.margin;
  for (std::size_t i = 0; i < kept.fields().size(); ++i) {
    const auto& field = kept.fields()[i];
    auto shape = kept_shape(field, i == 0 ? margin : 0);
    shape.insert(shape.begin(), kept.size());
    fields_.push_back(at::zeros(shape, at::TensorOptions(device).dtype(scalar_type_of(field.dtype))));
  }
  Loader loader(fixed.samples,
                {.global_batch = std::min(kept.size(), kSamplesAtOnce), .shuffle = false, .workers = workers});
  if (!device.is_cpu()) loader.pin_memory();
  for (std::int64_t first = 0; const auto batch = loader.next(); first += batch->samples()) {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      auto to = fields_[i].narrow(0, first, batch->samples());
      if (i == 0 && margin > 0) {
        to = to.narrow(2, margin, to.size(2) - 2 * margin).narrow(3, margin, to.size(3) - 2 * margin);
      }
      to.copy_(batch->fields[i], /*non_blocking=*/true);
    }
  }
  if (!is_moved_) return;
  const auto& shape = source.fields().at(0).shape;
  const auto numbers = at::TensorOptions(device).dtype(at::kLong);
  const auto& images = fields_[0];
  planes_ = (at::arange(shape.at(0), numbers) * images.stride(1)).view({1, shape.at(0), 1, 1});
  rows_ = (at::arange(shape.at(1), numbers) * images.stride(2)).view({1, 1, shape.at(1), 1});
  columns_ = at::arange(shape.at(2), numbers).view({1, 1, 1, shape.at(2)});
  // Mirroring makes the first column the last one. This is the number that is added to each column for that.
  mirror_ = shape.at(2) - 1 - 2 * columns_;
}

std::vector<at::Tensor> DeviceCache::gathered(const at::Tensor& places) const {
  const auto samples = places.select(1, 0);
  std::vector<at::Tensor> fields;
  for (const auto& field : fields_) {
    const bool moves = is_moved_ && fields.empty();
    fields.push_back(moves ? moved_pixels(places) : at::index_select(field, 0, samples));
  }
  return fields;
}

// Gathers the pixels of a batch. Each pixel is found by its index among all cached pixels.
at::Tensor DeviceCache::moved_pixels(const at::Tensor& places) const {
  const auto& images = fields_[0];
  const auto number = [&](std::int64_t which) { return places.select(1, which).view({-1, 1, 1, 1}); };
  const auto corner = number(0) * images.stride(0) + number(2) * images.stride(2) + number(1);
  const auto pixels = ((corner + rows_) + planes_) + (columns_ + number(3) * mirror_);
  return at::index(images.view({-1}), {pixels});
}

}  // namespace lockstep
