// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// Which of `count` equal readers this is; a rank of the world.
struct Shard {
  int index = 0;
  int count = 1;
};

/// Places [begin, end) of an epoch's order.
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
};

/// Global batches of an epoch: ceil(samples / global_batch); floor where `drop_last`.
///
/// Throws: Error(kUsage) where global_batch < 1.
std::int64_t batches_in_epoch(std::int64_t samples, std::int64_t global_batch, bool drop_last = false);

/// The places of global batch `b`: [b * global_batch, (b + 1) * global_batch), cut at the end of the epoch.
IndexRange global_batch_places(std::int64_t samples, std::int64_t b, std::int64_t global_batch);

/// This shard's contiguous part of `whole`. Parts differ by at most one, the larger ones first; together they are
/// `whole`, once.
///
/// Throws: Error(kUsage) where shard.index is not in [0, shard.count).
/// Source: docs/batches.md, which shows why the weighted mean over parts equals one rank's.
IndexRange part_of(IndexRange whole, Shard shard);

}  // namespace lockstep
