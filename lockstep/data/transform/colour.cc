// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform/colour.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace lockstep {
namespace {

std::uint8_t cut(float value) { return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F)); }

std::uint8_t grey_of(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>(0.2989F * static_cast<float>(rgb[0]) + 0.587F * static_cast<float>(rgb[1]) +
                                   0.114F * static_cast<float>(rgb[2]));
}

template <typename Change>
void change_pixels(Image& image, Change change) {
  std::uint8_t* at = image.row(0);
  const std::uint8_t* const end = at + image.bytes().size();
  for (; at != end; at += image.channels()) change(at);
}

/// Blends every byte with one number. A byte has 256 values, so the results are computed once in a table.
void blend_with(Image& image, float other, double factor) {
  const auto share = static_cast<float>(factor);
  const float rest = static_cast<float>(1.0 - factor) * other;
  std::array<std::uint8_t, 256> results{};
  for (std::size_t i = 0; i < results.size(); ++i) results[i] = cut(share * static_cast<float>(i) + rest);
  std::uint8_t* at = image.row(0);
  std::transform(at, at + image.bytes().size(), at, [&](std::uint8_t value) { return results[value]; });
}

struct Hsv {
  float hue;
  float saturation;
  float value;
};

Hsv hsv_of(float r, float g, float b) {
  const float most = std::max({r, g, b});
  const float range = most - std::min({r, g, b});
  if (range == 0) return {0, 0, most};
  const float red = (most - r) / range;
  const float green = (most - g) / range;
  const float blue = (most - b) / range;
  const float sixths = most == r ? blue - green : most == g ? 2.0F + red - blue : 4.0F + green - red;
  return {std::fmod(sixths / 6.0F + 1.0F, 1.0F), range / most, most};
}

std::array<float, 3> rgb_of(const Hsv& hsv) {
  const float sixth = std::floor(hsv.hue * 6.0F);
  const float f = hsv.hue * 6.0F - sixth;
  const auto unit = [](float x) { return std::clamp(x, 0.0F, 1.0F); };
  const float v = hsv.value;
  const float p = unit(v * (1.0F - hsv.saturation));
  const float q = unit(v * (1.0F - hsv.saturation * f));
  const float t = unit(v * (1.0F - hsv.saturation * (1.0F - f)));
  switch (static_cast<int>(sixth) % 6) {
    case 0:
      return {v, t, p};
    case 1:
      return {q, v, p};
    case 2:
      return {p, v, t};
    case 3:
      return {p, q, v};
    case 4:
      return {t, p, v};
    default:
      return {v, p, q};
  }
}

}  // namespace

void adjust_brightness(Image& image, double factor) { blend_with(image, 0, factor); }

void adjust_contrast(Image& image, double factor) {
  std::uint64_t sum = 0;
  change_pixels(image, [&](const std::uint8_t* pixel) { sum += image.channels() == 3 ? grey_of(pixel) : *pixel; });
  const std::size_t pixels = image.bytes().size() / static_cast<std::size_t>(image.channels());
  blend_with(image, static_cast<float>(sum) / static_cast<float>(pixels), factor);
}

void adjust_saturation(Image& image, double factor) {
  if (image.channels() != 3) return;
  const auto share = static_cast<float>(factor);
  const auto rest = static_cast<float>(1.0 - factor);
  change_pixels(image, [&](std::uint8_t* pixel) {
    const float grey = rest * static_cast<float>(grey_of(pixel));
    for (int c = 0; c < 3; ++c) pixel[c] = cut(share * static_cast<float>(pixel[c]) + grey);
  });
}

void adjust_hue(Image& image, double turn) {
  if (image.channels() != 3) return;
  const auto shift = static_cast<float>(turn);
  change_pixels(image, [&](std::uint8_t* pixel) {
    const auto unit = [&](int c) { return static_cast<float>(pixel[c]) / 255.0F; };
    Hsv hsv = hsv_of(unit(0), unit(1), unit(2));
    // Returns the remainder as Python's % does: its sign is that of the divisor.
    hsv.hue = std::fmod(hsv.hue + shift, 1.0F);
    if (hsv.hue < 0) hsv.hue += 1.0F;
    const std::array<float, 3> rgb = rgb_of(hsv);
    for (int c = 0; c < 3; ++c)
      pixel[c] = static_cast<std::uint8_t>(rgb[static_cast<std::size_t>(c)] * (255.0F + 1.0F - 1e-3F));
  });
}

}  // namespace lockstep
