// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/checksum.h"
#include "lockstep/data/sample_source.h"

namespace lockstep {

/// A sequence of random numbers for one read of a sample. It depends only on the key and on `stream`, which separates
/// the draws of one transform from those of another.
///
/// Source: docs/guide/data.md, which has every detail.
class SampleRng {
 public:
  SampleRng(const SampleKey& key, std::uint64_t stream)
      : state_(mixed(mixed(mixed(key.seed, static_cast<std::uint64_t>(key.epoch)), static_cast<std::uint64_t>(key.id)),
                     stream)) {}

  std::uint64_t bits() { return mixed(state_, count_++); }

  /// Returns a number in [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(bits() >> 11U) * 0x1p-53; }

  /// Returns a number in [low, high), or `low` if both are equal.
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// In [0, count).
  std::int64_t below(std::int64_t count) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::int64_t>(static_cast<Wide>(bits()) * static_cast<Wide>(count) >> 64U);
  }

 private:
  std::uint64_t state_;
  std::uint64_t count_ = 0;
};

}  // namespace lockstep
