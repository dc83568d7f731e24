// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace lockstep {

/// The order of an epoch's samples. It is a permutation that depends only on (size, seed, epoch), and is computed one
/// entry at a time. Nothing is stored, so a data set of 10^10 samples costs no memory, and a resume in mid-epoch starts
/// at once.
///
/// The permutation is a Feistel network of 6 rounds over the smallest even number of bits that holds `size`. It is
/// applied again until the result is in range. The round function is `mixed(mixed(seed, epoch) + round, right half)`.
/// docs/formats/batches.md has every detail, and tests/golden/epoch_order.py the same in Python. Source: Black and
/// Rogaway, "Ciphers with Arbitrary Finite Domains", 2002 (cycle walking).
class EpochOrder {
 public:
  /// Makes the order of one epoch. If `shuffle` is false, it is 0, 1, 2… Throws: Error(kUsage) if size < 0.
  EpochOrder(std::int64_t size, std::uint64_t seed, std::int64_t epoch, bool shuffle = true);

  std::int64_t size() const { return size_; }

  /// Returns the sample at place `i`, in [0, size). Threads: safe. LOCKSTEP_ASSERT: 0 <= i < size.
  std::int64_t operator[](std::int64_t i) const;

  /// Fills `to` with the samples at places begin, begin + 1 and so on. The result is that of operator[], in less time.
  ///
  /// Threads: safe. LOCKSTEP_ASSERT: all places lie in [0, size).
  void take(std::int64_t begin, std::span<std::int64_t> to) const;

 private:
  std::uint64_t permuted(std::uint64_t place) const;

  static constexpr int kRounds = 6;

  std::int64_t size_;
  std::array<std::uint64_t, kRounds> round_keys_{};
  int half_bits_ = 1;
  bool shuffle_;
};

}  // namespace lockstep
