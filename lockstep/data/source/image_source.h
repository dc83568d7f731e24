// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Encoded images, and sources that decode and transform them. Derive from EncodedImages to read images from elsewhere.
///
///     auto images = lockstep::folder_images(lockstep::folder_index("datasets/ants-and-bees/train"));
///     const lockstep::ImageTransforms transforms{
///         .steps = {lockstep::step::RandomResizedCrop{.size = {64, 64}}, lockstep::step::Flip{}}};
///     std::shared_ptr source = lockstep::image_source(images, transforms);
///     lockstep::Loader loader(source, {.global_batch = 64});

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/transform/transform.h"

namespace lockstep {

/// Memory for the bytes of a file. It is not zeroed first.
struct FileBytes {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;

  std::span<const std::byte> bytes() const { return {data.get(), size}; }
};

/// Encoded images with one class each, in files or elsewhere. Threads: const functions are safe.
class EncodedImages {
 public:
  virtual ~EncodedImages() = default;

  virtual std::int64_t size() const = 0;
  /// Returns the names of the classes. A label is an index into them.
  virtual const std::vector<std::string>& classes() const = 0;
  virtual std::int64_t label_of(std::int64_t id) const = 0;
  virtual std::string name_of(std::int64_t id) const = 0;

  /// Returns the encoded bytes of an image. Throws: Error(kIo) or Error(kData), without the image's name in the
  /// message.
  virtual FileBytes read(std::int64_t id) const = 0;
};

/// Returns a source that decodes and transforms images. Samples have "input" U8 [3, height, width] and "target" I64 [].
///
/// Throws: Error(kRecipe) if the transforms leave images at different sizes. read() throws Error(kData) for an image
/// that is damaged or too small for a crop.
std::unique_ptr<SampleSource> image_source(std::shared_ptr<const EncodedImages> images, ImageTransforms transforms);

/// Returns a source that transforms the images of another source. That source's "input" is U8 [channels, height, width]
/// with 1 or 3 channels.
///
/// Throws: Error(kRecipe) if there are transforms and "input" has another shape or type.
std::unique_ptr<SampleSource> transformed(std::shared_ptr<const SampleSource> source, ImageTransforms transforms);

}  // namespace lockstep
