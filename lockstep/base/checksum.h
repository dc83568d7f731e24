// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Checksums of bytes, as snapshots store them, and a 64-bit hash of two numbers.
///
///     lockstep::Xxh3Stream stream;
///     stream.update(std::as_bytes(std::span("first part, ")));
///     stream.update(std::as_bytes(std::span("second part")));
///     const std::uint64_t sum = stream.digest64();

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Returns the XXH3-64 of `bytes` with seed 0. It finds accidental damage, but does not protect against a forger.
///
/// Source: xxHash specification, XXH3.
std::uint64_t xxh3_64(std::span<const std::byte> bytes);
std::uint64_t xxh3_64(std::string_view text);

/// Hashes bytes that arrive in parts. The hash depends on the bytes only, not on where one part ends.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(Xxh3Stream&&) noexcept;
  Xxh3Stream& operator=(Xxh3Stream&&) noexcept;

  void update(std::span<const std::byte> bytes);
  std::uint64_t digest64() const;
  /// Returns the XXH3-128 of all bytes so far, as 32 lower-case hexadecimal digits.
  std::string digest128_hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns a well-mixed 64-bit hash of two numbers, the same on every machine.
///
/// Source: the finaliser of SplitMix64 (Steele, Lea, Flood 2014), applied to each word in turn.
constexpr std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  const auto step = [](std::uint64_t z) {
    z += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
  };
  return step(step(a) ^ b);
}

}  // namespace lockstep
