// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/data/shard.h"

namespace lockstep {

struct DistributedSamplerOptions {
  std::int64_t global_batch = 1;  ///< Samples of all ranks together.
  Shard shard{};                  ///< {world.rank(), world.world()}
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;
};

/// Which samples a rank takes, for a loop with a data set of its own: the same order and parts as the Loader's, so that
/// each sample is seen once an epoch on any number of ranks. Nothing is padded, so a rank's part of the last batch may
/// be smaller than another's, or empty: DistributedDataParallel::backward() is told its size.
class DistributedSampler {
 public:
  struct Part {
    std::vector<std::int64_t> indices;  ///< This rank's samples.
    std::int64_t global_samples = 0;    ///< Of all ranks.
  };

  /// Throws: Error(kUsage) where an option is out of range.
  DistributedSampler(std::int64_t samples, DistributedSamplerOptions options);

  /// The next part is the first of `epoch`. Without a call it is epoch 0's.
  void set_epoch(std::int64_t epoch);

  /// The next global batch's part; nothing at the epoch's end, on all ranks alike.
  std::optional<Part> next();

  /// Global batches of an epoch.
  std::int64_t batches() const;

 private:
  std::int64_t samples_;
  DistributedSamplerOptions options_;
  std::int64_t epoch_ = 0;
  std::int64_t batch_ = 0;
};

}  // namespace lockstep
