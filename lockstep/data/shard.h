// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A reader's part of the data, that is the samples of a global batch that belong to a rank.
///
///     const lockstep::Shard shard{world.rank(), world.world()};
///     const auto batch = lockstep::global_batch_places(1000, 0, 64);  // the first 64 of 1000 samples
///     const auto mine = lockstep::part_of(batch, shard);
///     std::cout << "rank " << shard.index << " takes " << mine.begin << " to " << mine.end << "\n";

#include <cstdint>

namespace lockstep {

/// One of `count` equal readers, such as a rank of the world.
struct Shard {
  int index = 0;
  int count = 1;
};

/// The entries [begin, end) of an epoch's order.
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
};

/// Returns the number of global batches in an epoch, ceil(samples / global_batch), or floor if `drop_last`.
///
/// Throws: Error(kUsage) if global_batch < 1.
std::int64_t batches_in_epoch(std::int64_t samples, std::int64_t global_batch, bool drop_last = false);

/// Returns the entries of global batch `b`, [b * global_batch, (b + 1) * global_batch), cut at the end of the epoch.
IndexRange global_batch_places(std::int64_t samples, std::int64_t b, std::int64_t global_batch);

/// Returns this shard's contiguous part of `whole`. Parts differ by at most one sample, and the larger ones come first.
/// Together they hold each entry of `whole` once.
///
/// Throws: Error(kUsage) if shard.index is not in [0, shard.count).
/// Source: docs/formats/batches.md, which shows why the weighted mean over parts equals one rank's.
IndexRange part_of(IndexRange whole, Shard shard);

}  // namespace lockstep
