// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform/pixels.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

void copy_row(const PixelView& view, const std::uint8_t* from, std::uint8_t* to, int pixels) {
  if (view.is_interleaved()) {
    std::memcpy(to, from, static_cast<std::size_t>(pixels) * static_cast<std::size_t>(view.channels));
    return;
  }
  for (int x = 0; x < pixels; ++x, from += view.pixel_step) {
    for (int c = 0; c < view.channels; ++c) *to++ = from[c * view.channel_step];
  }
}

}  // namespace

PixelView view_of(const Image& image) {
  return {.first = image.row(0),
          .size = image.size(),
          .channels = image.channels(),
          .pixel_step = image.channels(),
          .row_step = static_cast<std::ptrdiff_t>(image.row_bytes()),
          .channel_step = 1};
}

PixelView view_of_planes(const std::uint8_t* planes, ImageSize size, int channels) {
  return {.first = planes,
          .size = size,
          .channels = channels,
          .pixel_step = 1,
          .row_step = size.width,
          .channel_step = static_cast<std::ptrdiff_t>(size.width) * size.height};
}

PixelView part_of_view(const PixelView& view, const ImageArea& area) {
  LOCKSTEP_ASSERT(area.left >= 0 && area.top >= 0 && area.left + area.width <= view.size.width &&
                  area.top + area.height <= view.size.height);
  PixelView part = view;
  part.first = view.at(area.left, area.top);
  part.size = {area.width, area.height};
  return part;
}

PixelView mirrored(const PixelView& view) {
  PixelView mirror = view;
  mirror.first = view.at(view.size.width - 1, 0);
  mirror.pixel_step = -view.pixel_step;
  return mirror;
}

Image copy_of(const PixelView& view, const ImageArea& area) {
  Image copy({area.width, area.height}, view.channels);
  const int begin = std::clamp(-area.left, 0, area.width);
  const int end = std::clamp(view.size.width - area.left, begin, area.width);
  const auto bytes_to = [&](int x) { return static_cast<std::size_t>(x) * static_cast<std::size_t>(view.channels); };
  for (int y = 0; y < area.height; ++y) {
    std::uint8_t* to = copy.row(y);
    const int from_y = area.top + y;
    const bool is_inside = from_y >= 0 && from_y < view.size.height && begin < end;
    if (!is_inside) {
      std::memset(to, 0, copy.row_bytes());
      continue;
    }
    std::memset(to, 0, bytes_to(begin));
    copy_row(view, view.at(area.left + begin, from_y), to + bytes_to(begin), end - begin);
    std::memset(to + bytes_to(end), 0, copy.row_bytes() - bytes_to(end));
  }
  return copy;
}

Image copy_of(const PixelView& view) { return copy_of(view, {0, 0, view.size.width, view.size.height}); }

void write_planes(const PixelView& view, std::uint8_t* to) {
  const auto width = static_cast<std::size_t>(view.size.width);
  const std::size_t plane = width * static_cast<std::size_t>(view.size.height);
  for (int c = 0; c < view.channels; ++c) {
    for (int y = 0; y < view.size.height; ++y) {
      const std::uint8_t* from = view.at(0, y) + c * view.channel_step;
      std::uint8_t* row = to + static_cast<std::size_t>(c) * plane + static_cast<std::size_t>(y) * width;
      if (view.pixel_step == 1) {
        std::memcpy(row, from, width);
      } else if (view.pixel_step == -1) {
        std::reverse_copy(from + 1 - static_cast<std::ptrdiff_t>(width), from + 1, row);
      } else {
        for (std::size_t x = 0; x < width; ++x, from += view.pixel_step) row[x] = *from;
      }
    }
  }
}

}  // namespace lockstep
