// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/epoch_order.h"

#include <numeric>
#include <string>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// The step of mixed() for one word. The step for the first word is computed once for each round. So an entry costs six
// such steps and not twelve.
constexpr std::uint64_t stepped(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}
static_assert(stepped(stepped(3) ^ 5) == mixed(3, 5));

int half_bits_for(std::uint64_t size) {
  int half_bits = 1;
  while (half_bits < 32 && (std::uint64_t{1} << (2 * half_bits)) < size) ++half_bits;
  return half_bits;
}

}  // namespace

EpochOrder::EpochOrder(std::int64_t size, std::uint64_t seed, std::int64_t epoch, bool shuffle)
    : size_(size), shuffle_(shuffle) {
  if (size < 0) throw Error(ErrorKind::kUsage, "an epoch of " + std::to_string(size) + " samples, want 0 or more");
  const std::uint64_t key = mixed(seed, static_cast<std::uint64_t>(epoch));
  for (std::size_t round = 0; round < kRounds; ++round) round_keys_[round] = stepped(key + round);
  half_bits_ = half_bits_for(static_cast<std::uint64_t>(size));
}

inline std::uint64_t EpochOrder::permuted(std::uint64_t place) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = place >> half_bits_;
  std::uint64_t right = place & mask;
  for (const std::uint64_t key : round_keys_) {
    const std::uint64_t mixed_left = left ^ (stepped(key ^ right) & mask);
    left = right;
    right = mixed_left;
  }
  return left << half_bits_ | right;
}

std::int64_t EpochOrder::operator[](std::int64_t i) const {
  std::int64_t id = 0;
  take(i, {&id, 1});
  return id;
}

void EpochOrder::take(std::int64_t begin, std::span<std::int64_t> to) const {
  LOCKSTEP_ASSERT(begin >= 0 && begin <= size_ && static_cast<std::int64_t>(to.size()) <= size_ - begin);
  std::iota(to.begin(), to.end(), begin);
  if (!shuffle_) return;
  // First every entry is permuted once, and after that the walks follow. The first loop has no branch, so the processor
  // computes several entries at once.
  for (std::int64_t& id : to) id = static_cast<std::int64_t>(permuted(static_cast<std::uint64_t>(id)));
  const auto size = static_cast<std::uint64_t>(size_);
  for (std::int64_t& id : to) {
    auto place = static_cast<std::uint64_t>(id);
    while (place >= size) place = permuted(place);
    id = static_cast<std::int64_t>(place);
  }
}

}  // namespace lockstep
