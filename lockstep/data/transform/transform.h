// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// What is taken from pixels in [0, 1], and what they are divided by then, one number a channel. Done on the device,
/// since a batch of bytes is a quarter of one of floats.
struct Normalisation {
  std::vector<float> mean;
  std::vector<float> std;

  bool operator==(const Normalisation&) const = default;
};

/// What mixes the samples of a batch, see core_mixing.h. 0 for none.
struct Mixing {
  double mixup_alpha = 0;
  double cutmix_alpha = 0;
};

/// One transform of pixels, with its settings. Each random choice is uniform and drawn from (seed, epoch, sample) and
/// the step's place in the list. Meaning and defaults are those of torchvision's class of the same name.
namespace step {
struct Resize {
  int height = 0;
  int width = 0;  ///< 0: `height` is for the shorter side, the other keeps the shape.
};
struct CenterCrop {
  ImageSize size;
};
/// A part of `scale` of the area and `ratio` of width to height, log-uniform; ten attempts, then a centred part.
struct RandomResizedCrop {
  ImageSize size;
  double scale[2] = {0.08, 1};
  double ratio[2] = {3.0 / 4, 4.0 / 3};
};
/// `padding` black pixels on each side first.
struct RandomCrop {
  ImageSize size;
  int padding = 0;
};
struct Flip {
  double p = 0.5;
};
/// Factors within [1 - x, 1 + x], not below 0; the hue's turn within [-hue, hue]; in an order that is drawn too.
struct ColorJitter {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;
};
}  // namespace step

using Step = std::variant<step::Resize, step::CenterCrop, step::RandomResizedCrop, step::RandomCrop, step::Flip,
                          step::ColorJitter>;

/// What is done to each image on its way into a batch, as a recipe writes it:
///
///     data.transforms = ["random_resized_crop(64)", "flip", "normalize(imagenet)"]
///
/// Threads: const functions are safe.
struct ImageTransforms {
  std::vector<Step> steps;
  std::optional<Normalisation> normalisation;
  Mixing mixing;

  /// The size that images come out with; nothing where it depends on theirs. `in` is their size where all have one.
  std::optional<ImageSize> output_size(std::optional<ImageSize> in) const;

  /// A claim: the steps move bytes only, so threads of their own would cost more than they save.
  bool is_light() const;
  bool is_random() const;

  /// How far beyond an image of size `in` its pixels may be taken from; nothing where more is done to them than to move
  /// them once: a crop, and mirroring before or after it.
  std::optional<int> margin(ImageSize in) const;
  /// What apply() does to an image of size `in` where there is a margin().
  /// Throws: as apply().
  PixelMove move_of(ImageSize in, const SampleKey& key) const;

  /// Writes [channels, height, width] of output_size().
  /// Throws: Error(kData) where the image is smaller than a crop.
  void apply(PixelView image, const SampleKey& key, std::uint8_t* to) const;

  /// The same; of an encoded image just the part is decoded that the first step takes.
  void apply(ImageDecoder& image, const SampleKey& key, std::uint8_t* to) const;
};

/// What to validate with where a recipe has no list for it: the same without chance. A random resized crop becomes a
/// resize to 8/7 of its size and a centred crop, as 256 and 224 are in most papers; a random crop with padding goes,
/// one without becomes centred; the flip, the jitter and the mixing go.
ImageTransforms without_chance(const ImageTransforms& transforms);

/// The part that RandomResizedCrop takes of an image, in draws of key and stream.
ImageArea drawn_area(const step::RandomResizedCrop& crop, ImageSize image, const SampleKey& key, std::uint64_t stream);

}  // namespace lockstep
