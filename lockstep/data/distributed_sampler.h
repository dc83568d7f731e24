// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Distributes samples among ranks, for a loop with its own data set.
///
///     lockstep::DistributedSampler sampler(images.size(0), {.global_batch = 64, .shard = {world.rank(),
///     world.world()}}); for (int epoch = 0; epoch < 10; ++epoch) {
///       sampler.set_epoch(epoch);
///       while (const auto part = sampler.next()) {
///         const auto rows = images.index_select(0, at::tensor(part->indices, at::kLong));
///       }
///     }

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/data/shard.h"

namespace lockstep {

struct DistributedSamplerOptions {
  std::int64_t global_batch = 1;  ///< Samples of all ranks together, in one batch.
  Shard shard{};                  ///< {world.rank(), world.world()}
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;
};

/// Returns the samples that a rank takes, batch by batch, in the same order and parts as the Loader. Each sample is
/// seen once an epoch on any number of ranks.
///
/// Nothing is padded, so a rank's part of the last batch may be smaller than another's, or empty. Pass its size to
/// DistributedDataParallel::backward().
class DistributedSampler {
 public:
  struct Part {
    std::vector<std::int64_t> indices;  ///< This rank's samples.
    std::int64_t global_samples = 0;    ///< Samples of all ranks.
  };

  /// Throws: Error(kUsage) if an option is out of range.
  DistributedSampler(std::int64_t samples, DistributedSamplerOptions options);

  /// Makes next() continue with the first batch of `epoch`. Before any call, that is epoch 0.
  void set_epoch(std::int64_t epoch);

  /// Returns this rank's part of the next global batch, or nothing at the epoch's end, on all ranks alike.
  std::optional<Part> next();

  /// Returns the number of global batches in an epoch.
  std::int64_t batches() const;

 private:
  std::int64_t samples_;
  DistributedSamplerOptions options_;
  std::int64_t epoch_ = 0;
  std::int64_t batch_ = 0;
};

}  // namespace lockstep
