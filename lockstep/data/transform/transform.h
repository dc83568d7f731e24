// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Transforms of images on their way into a batch, named as torchvision names them.
///
///     lockstep::ImageTransforms transforms;
///     transforms.steps = {lockstep::step::RandomResizedCrop{.size = {64, 64}}, lockstep::step::Flip{}};
///     std::shared_ptr train = lockstep::image_source(encoded, transforms);
///     std::shared_ptr validation = lockstep::image_source(encoded, lockstep::without_chance(transforms));

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/data/sample_source.h"
#include "lockstep/data/transform/pixels.h"
#include "lockstep/format/image/image.h"

namespace lockstep {

/// Subtracts `mean` from pixels in [0, 1] and divides by `std`, with one number for each channel. The device does this,
/// since a batch of bytes has a quarter of the size of a batch of floats.
struct Normalisation {
  std::vector<float> mean;
  std::vector<float> std;

  bool operator==(const Normalisation&) const = default;
};

/// How the samples of a batch are mixed, see mixing.h. An alpha of 0 turns the kind off.
struct Mixing {
  double mixup_alpha = 0;
  double cutmix_alpha = 0;
};

/// The transforms of pixels, with their settings. Each random choice is uniform, and drawn from (seed, epoch, sample)
/// and the step's index in the list. Meaning and defaults are those of torchvision's class of the same name.
namespace step {
struct Resize {
  int height = 0;
  int width = 0;  ///< If 0, `height` is the length of the shorter side, and the aspect ratio stays.
};
struct CenterCrop {
  ImageSize size;
};
/// Crops a part with a share of the area in `scale` and a log-uniform aspect ratio in `ratio`. It makes ten attempts,
/// then takes a centred part.
struct RandomResizedCrop {
  ImageSize size;
  double scale[2] = {0.08, 1};
  double ratio[2] = {3.0 / 4, 4.0 / 3};
};
/// Adds `padding` black pixels on each side, then crops.
struct RandomCrop {
  ImageSize size;
  int padding = 0;
};
struct Flip {
  double p = 0.5;
};
/// Changes brightness, contrast and saturation by factors drawn from [1 - x, 1 + x], not below 0, and turns the hue by
/// a value from [-hue, hue]. The order of the changes is drawn too.
struct ColorJitter {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;
};
}  // namespace step

using Step = std::variant<step::Resize, step::CenterCrop, step::RandomResizedCrop, step::RandomCrop, step::Flip,
                          step::ColorJitter>;

/// The transforms of each image on its way into a batch, as a recipe writes them:
///
///     data.transforms = ["random_resized_crop(64)", "flip", "normalize(imagenet)"]
///
/// Threads: const functions are safe.
struct ImageTransforms {
  std::vector<Step> steps;
  std::optional<Normalisation> normalisation;
  Mixing mixing;

  /// Returns the size of transformed images, or nothing if it depends on the image. `in` is the images' size if all
  /// have the same.
  std::optional<ImageSize> output_size(std::optional<ImageSize> in) const;

  /// True if the steps only move bytes. They are then so fast that extra threads would cost more than they save.
  bool is_light() const;
  bool is_random() const;

  /// Returns by how many pixels the crop of apply() can reach beyond an image of size `in`. Returns nothing if apply()
  /// does more than one crop and flips.
  std::optional<int> margin(ImageSize in) const;
  /// Returns the crop and flip that apply() makes with an image of size `in`. Call it only if there is a margin().
  /// Throws: as apply().
  PixelMove move_of(ImageSize in, const SampleKey& key) const;

  /// Writes the transformed pixels. Shape: to [channels, height, width] of output_size().
  /// Throws: Error(kData) if the image is smaller than a crop.
  void apply(PixelView image, const SampleKey& key, std::uint8_t* to) const;

  /// Decodes an encoded image and writes its transformed pixels. Only the part that the first step crops is decoded.
  void apply(ImageDecoder& image, const SampleKey& key, std::uint8_t* to) const;
};

/// Returns the same transforms without chance, for validation if a recipe has no list for it. A random resized crop
/// becomes a resize to 8/7 of its size and a centred crop, as 256 and 224 in most papers. A random crop with padding is
/// left out, and one without padding becomes a centred crop. Flip, jitter and mixing are left out.
ImageTransforms without_chance(const ImageTransforms& transforms);

/// Returns the part of an image that RandomResizedCrop crops, drawn from `key` and `stream`.
ImageArea drawn_area(const step::RandomResizedCrop& crop, ImageSize image, const SampleKey& key, std::uint64_t stream);

}  // namespace lockstep
