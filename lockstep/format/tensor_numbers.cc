// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/tensor_numbers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

/// Decodes a floating number of 8 or 16 bits. Its highest bit is the sign, then come `kExponent` and `kMantissa` bits.
template <int kExponent, int kMantissa>
double small_float(std::uint32_t bits) {
  constexpr std::uint32_t kMost = (1U << kExponent) - 1;
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  const std::uint32_t exponent = bits >> kMantissa & kMost;
  const std::uint32_t mantissa = bits & ((1U << kMantissa) - 1);
  const double sign = (bits >> (kExponent + kMantissa) & 1U) != 0 ? -1 : 1;
  // The format E4M3 has no infinity, and only one NaN of each sign.
  if constexpr (kExponent == 4) {
    if ((bits & 0x7fU) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == kMost) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - kBias - kMantissa);
  return sign * std::ldexp(mantissa + (1U << kMantissa), static_cast<int>(exponent) - kBias - kMantissa);
}

template <typename Stored, typename Value>
void decode(std::span<const std::byte> bytes, std::size_t first, std::span<double> out, Value value) {
  const std::byte* at = bytes.data() + first * sizeof(Stored);
  for (auto& number : out) {
    Stored stored{};
    std::memcpy(&stored, at, sizeof stored);
    number = value(stored);
    at += sizeof stored;
  }
}

using Decode = void (*)(std::span<const std::byte>, std::size_t, std::span<double>);

template <typename Stored>
constexpr Decode kPlain = [](std::span<const std::byte> bytes, std::size_t first, std::span<double> out) {
  decode<Stored>(bytes, first, out, [](Stored stored) { return static_cast<double>(stored); });
};

template <typename Stored, int kExponent, int kMantissa>
constexpr Decode kSmall = [](std::span<const std::byte> bytes, std::size_t first, std::span<double> out) {
  decode<Stored>(bytes, first, out, small_float<kExponent, kMantissa>);
};

struct Decoder {
  std::string_view dtype;
  std::size_t width;
  Decode decode;
};

constexpr std::array<Decoder, 16> kDecoders = {{{"F64", 8, kPlain<double>},
                                                {"F32", 4, kPlain<float>},
                                                {"C64", 4, kPlain<float>},
                                                {"F16", 2, kSmall<std::uint16_t, 5, 10>},
                                                {"BF16", 2, kSmall<std::uint16_t, 8, 7>},
                                                {"F8_E4M3", 1, kSmall<std::uint8_t, 4, 3>},
                                                {"F8_E5M2", 1, kSmall<std::uint8_t, 5, 2>},
                                                {"I64", 8, kPlain<std::int64_t>},
                                                {"I32", 4, kPlain<std::int32_t>},
                                                {"I16", 2, kPlain<std::int16_t>},
                                                {"I8", 1, kPlain<std::int8_t>},
                                                {"U64", 8, kPlain<std::uint64_t>},
                                                {"U32", 4, kPlain<std::uint32_t>},
                                                {"U16", 2, kPlain<std::uint16_t>},
                                                {"U8", 1, kPlain<std::uint8_t>},
                                                {"BOOL", 1, kPlain<std::uint8_t>}}};

const Decoder& decoder_of(std::string_view dtype) {
  const auto* const found = std::ranges::find(kDecoders, dtype, &Decoder::dtype);
  LOCKSTEP_ASSERT(found != kDecoders.end());
  return *found;
}

/// Two different large integers may be equal as doubles, so their difference is computed on integers.
double wide_difference(std::string_view dtype, const std::byte* a, const std::byte* b) {
  std::uint64_t x = 0;
  std::uint64_t y = 0;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  const bool is_less = dtype == "I64" ? static_cast<std::int64_t>(x) < static_cast<std::int64_t>(y) : x < y;
  return static_cast<double>(is_less ? y - x : x - y);
}

}  // namespace

void decode_numbers(std::string_view dtype, std::span<const std::byte> bytes, std::size_t first,
                    std::span<double> out) {
  const Decoder& decoder = decoder_of(dtype);
  LOCKSTEP_ASSERT((first + out.size()) * decoder.width <= bytes.size());
  decoder.decode(bytes, first, out);
}

std::size_t count_numbers(std::string_view dtype, std::span<const std::byte> bytes) {
  return bytes.size() / decoder_of(dtype).width;
}

TensorDifference tensor_difference(const TensorEntry& a, const TensorEntry& b) {
  constexpr std::size_t kBlock = 1024;
  TensorDifference found{.numbers = count_numbers(a.dtype, a.bytes)};
  LOCKSTEP_ASSERT(found.numbers == count_numbers(b.dtype, b.bytes));
  const bool is_one_dtype = a.dtype == b.dtype;
  const std::size_t width = decoder_of(a.dtype).width;
  const bool is_wide = is_one_dtype && (a.dtype == "I64" || a.dtype == "U64");
  std::array<double, kBlock> left{};
  std::array<double, kBlock> right{};
  for (std::size_t first = 0; first < found.numbers; first += kBlock) {
    const std::size_t count = std::min(kBlock, found.numbers - first);
    const std::byte* from = a.bytes.data() + first * width;
    const std::byte* to = b.bytes.data() + first * width;
    if (is_one_dtype && std::memcmp(from, to, count * width) == 0) continue;
    decode_numbers(a.dtype, a.bytes, first, std::span(left).first(count));
    decode_numbers(b.dtype, b.bytes, first, std::span(right).first(count));
    for (std::size_t i = 0; i < count; ++i, from += width, to += width) {
      const bool is_same = is_one_dtype ? std::memcmp(from, to, width) == 0
                                        : left[i] == right[i] || (std::isnan(left[i]) && std::isnan(right[i]));
      if (is_same) continue;
      ++found.different;
      const double gap = is_wide ? wide_difference(a.dtype, from, to) : std::abs(left[i] - right[i]);
      if (!std::isfinite(gap)) ++found.not_finite;
      if (std::isfinite(gap)) found.max_abs = std::max(found.max_abs, gap);
    }
  }
  return found;
}

}  // namespace lockstep
