// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A whole data set in a device's memory. Loader::cache_on() makes one. Batches then need no copy from the host.
///
///     lockstep::Loader loader(source, {.global_batch = 64});
///     if (source->fixed()) loader.cache_on(world.device().device);
///     while (auto next = loader.next()) {
///       const auto batch = lockstep::to_device(*next, world.device().device);  // gathered there, not copied
///     }

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// Holds all samples of a source in a device's memory. Batches are gathered there by the numbers of IndexSource
/// (data/index_source.h). Threads: const functions are safe.
class DeviceCache {
 public:
  /// Returns the memory that the samples would take. Units: bytes.
  static std::int64_t bytes_of(const FixedSamples& fixed);

  /// Reads each sample once, with `workers` threads and the calling one. `fixed` is source.fixed(). Blocks: until all
  /// samples are on the device. Throws: the errors of the source's read(), with the sample's name.
  DeviceCache(const SampleSource& source, const FixedSamples& fixed, const c10::Device& device, int workers);

  c10::Device device() const { return fields_[0].device(); }

  /// Returns the fields of a batch, the same bytes that the source would have read. It does not wait for the device.
  /// Shape: places [samples, numbers] I64 on the device; each field [samples, its shape…].
  std::vector<at::Tensor> gathered(const at::Tensor& places) const;

 private:
  at::Tensor moved_pixels(const at::Tensor& places) const;

  std::vector<at::Tensor> fields_;  ///< [all samples, the field's shape…]. Images have the margin around them.
  bool is_moved_;
  at::Tensor rows_, columns_, mirror_, planes_;
};

}  // namespace lockstep
