// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/transform/transform.h"

namespace lockstep {

/// Bytes of a file, not zeroed before they are read.
struct FileBytes {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;

  std::span<const std::byte> bytes() const { return {data.get(), size}; }
};

/// Encoded images with a class each, wherever they lie. Threads: const functions are safe.
class EncodedImages {
 public:
  virtual ~EncodedImages() = default;

  virtual std::int64_t size() const = 0;
  /// Names of the classes; a label is a place in it.
  virtual const std::vector<std::string>& classes() const = 0;
  virtual std::int64_t label_of(std::int64_t id) const = 0;
  virtual std::string name_of(std::int64_t id) const = 0;

  /// Throws: Error(kIo), Error(kData), without the image's name.
  virtual FileBytes read(std::int64_t id) const = 0;
};

/// Decodes and transforms: "input" U8 [3, height, width], "target" I64 [].
///
/// Throws: Error(kRecipe) where the transforms leave images at different sizes. read() throws Error(kData) for an image
/// that is damaged or too small for a crop.
std::unique_ptr<SampleSource> image_source(std::shared_ptr<const EncodedImages> images, ImageTransforms transforms);

/// The same transforms on a source whose "input" is U8 [channels, height, width] already, with 1 or 3 channels.
///
/// Throws: Error(kRecipe) where it is not and there is anything to do.
std::unique_ptr<SampleSource> transformed(std::shared_ptr<const SampleSource> source, ImageTransforms transforms);

}  // namespace lockstep
