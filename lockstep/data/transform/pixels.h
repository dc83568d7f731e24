// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/format/image/image.h"

namespace lockstep {

/// Pixels somewhere in memory, reached by steps: interleaved or planar, a part of a larger image, mirrored by a
/// negative step. Does not own them.
struct PixelView {
  const std::uint8_t* first = nullptr;  ///< Channel 0 of the upper left pixel.
  ImageSize size;
  int channels = 0;
  std::ptrdiff_t pixel_step = 0;
  std::ptrdiff_t row_step = 0;
  std::ptrdiff_t channel_step = 0;

  const std::uint8_t* at(int x, int y) const { return first + x * pixel_step + y * row_step; }
  /// A claim: rows are `channels` bytes a pixel without gaps.
  bool is_interleaved() const { return pixel_step == channels && (channel_step == 1 || channels == 1); }
};

PixelView view_of(const Image& image);

/// `planes` is [channels, height, width].
PixelView view_of_planes(const std::uint8_t* planes, ImageSize size, int channels);

/// LOCKSTEP_ASSERT: `area` lies inside.
PixelView part_of_view(const PixelView& view, const ImageArea& area);

/// Left and right exchanged.
PixelView mirrored(const PixelView& view);

/// A copy with pixels interleaved. What of `area` lies outside of the view is 0.
Image copy_of(const PixelView& view, const ImageArea& area);
Image copy_of(const PixelView& view);

/// Writes [channels, height, width].
void write_planes(const PixelView& view, std::uint8_t* to);

}  // namespace lockstep
