// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "lockstep/base/error.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lockstep {
namespace {

// The bits of a fixed-point weight, as in Pillow: of 32 bits, 8 are for the pixel, and 2 are spare against overflow.
constexpr int kWeightBits = 22;
// A weight of 22 bits is split into two halves of 11 bits. Each half fits the processor's 16-bit multiply-and-add.
constexpr int kLowBits = 11;
constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

std::uint8_t rounded(std::int32_t sum) { return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255)); }

/// The weights of two neighbouring input pixels. Each weight is split into a high and a low half of 16 bits.
struct WeightPair {
  std::int16_t high[2];
  std::int16_t low[2];

  std::int32_t weight(int i) const { return high[i] * (1 << kLowBits) + low[i]; }
};

/// The weights of one output pixel. It has `taps` input pixels, which begin at `begin`. Weights are stored in pairs. If
/// `taps` is odd, the second weight of the last pair is 0.
struct Window {
  int begin = 0;
  int taps = 0;
  std::size_t first_pair = 0;

  int pairs() const { return (taps + 1) / 2; }
};

struct Weights {
  std::vector<Window> windows;
  std::vector<WeightPair> pairs;

  const WeightPair* of(const Window& window) const { return pairs.data() + window.first_pair; }
};

/// Cuts off the fraction, as a C cast does. Pillow rounds by adding 0.5 first.
std::int32_t cut(double value) { return static_cast<std::int32_t>(value); }

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

WeightPair split_weights(std::int32_t first, std::int32_t second) {
  const auto high = [](std::int32_t weight) { return static_cast<std::int16_t>(weight >> kLowBits); };
  const auto low = [](std::int32_t weight) { return static_cast<std::int16_t>(weight & ((1 << kLowBits) - 1)); };
  return {{high(first), high(second)}, {low(first), low(second)}};
}

Weights weights_for(int in, int out) {
  const double scale = static_cast<double>(in) / out;
  const double support = std::max(scale, 1.0);
  const double step = 1.0 / support;
  Weights weights;
  std::vector<double> exact;
  for (int i = 0; i < out; ++i) {
    const double center = (i + 0.5) * scale;
    Window window{.begin = std::max(0, cut(center - support + 0.5)), .first_pair = weights.pairs.size()};
    window.taps = std::min(in, cut(center + support + 0.5)) - window.begin;
    exact.clear();
    double sum = 0;
    for (int t = 0; t < window.taps; ++t) {
      exact.push_back(triangle((t + window.begin - center + 0.5) * step));
      sum += exact.back();
    }
    const auto fixed = [&](int t) {
      if (t >= window.taps) return 0;
      const double value = exact[static_cast<std::size_t>(t)];
      return cut(0.5 + (sum != 0 ? value / sum : value) * (1 << kWeightBits));
    };
    for (int t = 0; t < window.taps; t += 2) weights.pairs.push_back(split_weights(fixed(t), fixed(t + 1)));
    weights.windows.push_back(window);
  }
  return weights;
}

/// Computes one output pixel of the horizontal pass.
void combine_pixels(const std::uint8_t* from, int channels, int taps, const WeightPair* pairs, std::uint8_t* to) {
  for (int c = 0; c < channels; ++c) {
    std::int32_t sum = kHalf;
    for (int t = 0; t < taps; ++t) sum += from[t * channels + c] * pairs[t / 2].weight(t % 2);
    to[c] = rounded(sum);
  }
}

/// Computes one output row of the vertical pass, from byte `begin` on.
void combine_bytes(const Image& from, const Window& window, const WeightPair* pairs, std::size_t begin,
                   std::uint8_t* to) {
  for (std::size_t i = begin; i < from.row_bytes(); ++i) {
    std::int32_t sum = kHalf;
    for (int t = 0; t < window.taps; ++t) sum += from.row(window.begin + t)[i] * pairs[t / 2].weight(t % 2);
    to[i] = rounded(sum);
  }
}

#if defined(__SSE2__)

/// Four sums of products, pixel times weight, computed at once by SSE2. `high` sums the products with the weights' high
/// halves, and `low` those with the low halves.
struct Sums {
  __m128i high = _mm_setzero_si128();
  __m128i low = _mm_setzero_si128();

  /// Adds the products of two input pixels with a pair of weights, to each of the four sums. `pixels` has eight numbers
  /// of 16 bits. For each sum these are the pixel for the first weight of the pair, then the pixel for the second.
  void add(__m128i pixels, __m128i high_pair, __m128i low_pair) {
    high = _mm_add_epi32(high, _mm_madd_epi16(pixels, high_pair));
    low = _mm_add_epi32(low, _mm_madd_epi16(pixels, low_pair));
  }
  __m128i rounded() const {
    const __m128i sum = _mm_add_epi32(_mm_slli_epi32(high, kLowBits), _mm_add_epi32(low, _mm_set1_epi32(kHalf)));
    return _mm_srai_epi32(sum, kWeightBits);
  }
};

__m128i repeated(const std::int16_t (&pair)[2]) {
  std::int32_t both = 0;
  std::memcpy(&both, pair, sizeof both);
  return _mm_set1_epi32(both);
}

__m128i four_bytes(const std::uint8_t* from) {
  std::int32_t bytes = 0;
  std::memcpy(&bytes, from, sizeof bytes);
  return _mm_cvtsi32_si128(bytes);
}

/// Computes one RGB pixel. It loads up to 4 bytes beyond the last input pixel, which Image allows.
void combine_rgb(const std::uint8_t* from, int pairs, const WeightPair* pair, std::uint8_t* to) {
  const __m128i zero = _mm_setzero_si128();
  Sums sums;
  for (int p = 0; p < pairs; ++p, from += 6) {
    const __m128i both = _mm_unpacklo_epi8(four_bytes(from), four_bytes(from + 3));
    sums.add(_mm_unpacklo_epi8(both, zero), repeated(pair[p].high), repeated(pair[p].low));
  }
  const __m128i words = _mm_packs_epi32(sums.rounded(), zero);
  const int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, zero));
  to[0] = static_cast<std::uint8_t>(bytes);
  to[1] = static_cast<std::uint8_t>(bytes >> 8);
  to[2] = static_cast<std::uint8_t>(bytes >> 16);
}

/// Computes the output row in blocks of eight bytes. Returns the number of bytes done. The rest is up to the caller.
std::size_t combine_rows(const Image& from, const Window& window, const WeightPair* pair, std::uint8_t* to) {
  const __m128i zero = _mm_setzero_si128();
  std::size_t i = 0;
  for (; i + 8 <= from.row_bytes(); i += 8) {
    Sums left;
    Sums right;
    for (int p = 0; p < window.pairs(); ++p) {
      // If the number of rows is odd, the last pair has only one row. This row is then used twice, the second time with
      // weight 0.
      const int y = window.begin + 2 * p;
      const int next = std::min(y + 1, window.begin + window.taps - 1);
      const __m128i both = _mm_unpacklo_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from.row(y) + i)),
                                             _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from.row(next) + i)));
      const __m128i high = repeated(pair[p].high);
      const __m128i low = repeated(pair[p].low);
      left.add(_mm_unpacklo_epi8(both, zero), high, low);
      right.add(_mm_unpackhi_epi8(both, zero), high, low);
    }
    const __m128i words = _mm_packs_epi32(left.rounded(), right.rounded());
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + i), _mm_packus_epi16(words, zero));
  }
  return i;
}

#else

std::size_t combine_rows(const Image&, const Window&, const WeightPair*, std::uint8_t*) { return 0; }

#endif

void combine_pixel(const std::uint8_t* from, int channels, const Window& window, const WeightPair* pairs,
                   std::uint8_t* to) {
#if defined(__SSE2__)
  if (channels == 3) return combine_rgb(from, window.pairs(), pairs, to);
#endif
  combine_pixels(from, channels, window.taps, pairs, to);
}

Image with_width(const Image& from, int width) {
  const Weights weights = weights_for(from.size().width, width);
  const int channels = from.channels();
  Image out({width, from.size().height}, channels);
  for (int y = 0; y < from.size().height; ++y) {
    std::uint8_t* to = out.row(y);
    for (const Window& window : weights.windows) {
      const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(window.begin) * channels;
      combine_pixel(from.row(y) + first, channels, window, weights.of(window), to);
      to += channels;
    }
  }
  return out;
}

Image with_height(const Image& from, int height) {
  const Weights weights = weights_for(from.size().height, height);
  Image out({from.size().width, height}, from.channels());
  for (int y = 0; y < height; ++y) {
    const Window& window = weights.windows[static_cast<std::size_t>(y)];
    const std::size_t done = combine_rows(from, window, weights.of(window), out.row(y));
    combine_bytes(from, window, weights.of(window), done, out.row(y));
  }
  return out;
}

}  // namespace

Image resized(Image image, ImageSize size) {
  const ImageSize in = image.size();
  LOCKSTEP_ASSERT(size.width >= 1 && size.height >= 1 && in.width >= 1 && in.height >= 1);
  const bool is_height_first = size.height < in.height && in.height - size.height > 2 * (in.width - size.width);
  if (is_height_first) image = with_height(image, size.height);
  if (size.width != in.width) image = with_width(image, size.width);
  if (size.height != in.height && !is_height_first) image = with_height(image, size.height);
  return image;
}

}  // namespace lockstep
