// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Views of pixels in memory, which crop, mirror and copy for any layout of the pixels.
///
///     lockstep::Image image = lockstep::ImageDecoder(bytes, "cat.jpg").decoded();
///     const auto view = lockstep::mirrored(lockstep::view_of(image));
///     const lockstep::Image corner = lockstep::copy_of(view, {.left = 0, .top = 0, .width = 64, .height = 64});

#include <cstddef>
#include <cstdint>

#include "lockstep/format/image/image.h"

namespace lockstep {

/// A view of pixels in memory, with a step in bytes for each direction. The pixels may be interleaved or planar, or a
/// part of a larger image. A negative step mirrors them. The view does not own them.
struct PixelView {
  const std::uint8_t* first = nullptr;  ///< Channel 0 of the upper left pixel.
  ImageSize size;
  int channels = 0;
  std::ptrdiff_t pixel_step = 0;
  std::ptrdiff_t row_step = 0;
  std::ptrdiff_t channel_step = 0;

  const std::uint8_t* at(int x, int y) const { return first + x * pixel_step + y * row_step; }
  /// True if each row has `channels` bytes for each pixel, without gaps.
  bool is_interleaved() const { return pixel_step == channels && (channel_step == 1 || channels == 1); }
};

PixelView view_of(const Image& image);

/// Returns a view of `planes`. Shape: planes [channels, height, width].
PixelView view_of_planes(const std::uint8_t* planes, ImageSize size, int channels);

/// Returns a view of `area`, which must lie inside `view`.
PixelView part_of_view(const PixelView& view, const ImageArea& area);

/// Returns a view with left and right exchanged.
PixelView mirrored(const PixelView& view);

/// Returns a copy with pixels interleaved. Pixels of `area` outside of the view are 0.
Image copy_of(const PixelView& view, const ImageArea& area);
Image copy_of(const PixelView& view);

/// Writes the pixels plane by plane, one plane for each channel. Shape: to [channels, height, width].
void write_planes(const PixelView& view, std::uint8_t* to);

}  // namespace lockstep
