// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "lockstep/format/image/image.h"

namespace lockstep {

/// The inside of ImageDecoder.
class ImageDecoder::Codec {
 public:
  virtual ~Codec() = default;
  virtual ImageKind kind() const = 0;
  virtual ImageSize size() const = 0;
  virtual Image decoded(ImageArea area) = 0;
};

/// Throws Error(kData) for an image that cannot be read.
[[noreturn]] void refuse_image(const std::string& name, const std::string& fact);

/// Throws if a side is 0, or if the image has more than kMostPixels or more than `most_pixels`, which a file of its
/// size can hold.
void check_image_size(const std::string& name, std::uint64_t width, std::uint64_t height, std::uint64_t most_pixels);

/// True if `mark` occurs in `bytes`. The search begins at the end, where an image has its end mark.
bool has_end_mark(std::span<const std::byte> bytes, std::span<const std::byte> mark);

}  // namespace lockstep
