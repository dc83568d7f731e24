// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// All samples of a source in a device's memory, from which batches are gathered there by their places
/// (core_places.h). Threads: const functions are safe.
class DeviceCache {
 public:
  /// What they would take. Units: bytes.
  static std::int64_t bytes_of(const FixedSamples& fixed);

  /// Reads each sample once, with so many threads besides this one. `source` is what `fixed` was taken from.
  /// Blocks: until all are there. Throws: what the source's read() throws, with the sample's name.
  DeviceCache(const SampleSource& source, const FixedSamples& fixed, const c10::Device& device, int workers);

  c10::Device device() const { return fields_[0].device(); }

  /// The fields that the source would have read: the same bytes. Nothing in it waits for the device.
  /// Shape: places [samples, numbers] I64 on the device; each field [samples, its shape…].
  std::vector<at::Tensor> gathered(const at::Tensor& places) const;

 private:
  at::Tensor moved_pixels(const at::Tensor& places) const;

  std::vector<at::Tensor> fields_;  ///< [all samples, the field's shape…]; of images with the margin around.
  bool is_moved_;
  at::Tensor rows_, columns_, mirror_, planes_;
};

}  // namespace lockstep
