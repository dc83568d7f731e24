// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/shard.h"

#include <algorithm>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {

std::int64_t batches_in_epoch(std::int64_t samples, std::int64_t global_batch, bool drop_last) {
  if (global_batch < 1) {
    throw Error(ErrorKind::kUsage, "global_batch is " + std::to_string(global_batch) + ", want 1 or more");
  }
  const std::int64_t whole = samples / global_batch;
  return drop_last || samples % global_batch == 0 ? whole : whole + 1;
}

IndexRange global_batch_places(std::int64_t samples, std::int64_t b, std::int64_t global_batch) {
  const std::int64_t begin = std::min(b * global_batch, samples);
  return {begin, begin + std::min(global_batch, samples - begin)};
}

IndexRange part_of(IndexRange whole, Shard shard) {
  if (shard.index < 0 || shard.index >= shard.count) {
    throw Error(ErrorKind::kUsage, "shard " + std::to_string(shard.index) + " of " + std::to_string(shard.count) +
                                       ", want an index from 0 to one below the count");
  }
  const std::int64_t least = whole.size() / shard.count;
  const std::int64_t larger = whole.size() % shard.count;
  const std::int64_t begin = whole.begin + shard.index * least + std::min<std::int64_t>(shard.index, larger);
  return {begin, begin + least + (shard.index < larger ? 1 : 0)};
}

}  // namespace lockstep
