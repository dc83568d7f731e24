// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/distributed_sampler.h"

#include "lockstep/data/epoch_order.h"

namespace lockstep {

DistributedSampler::DistributedSampler(std::int64_t samples, DistributedSamplerOptions options)
    : samples_(samples), options_(options) {
  batches();
  part_of({0, 0}, options.shard);
}

std::int64_t DistributedSampler::batches() const {
  return batches_in_epoch(samples_, options_.global_batch, options_.drop_last);
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  batch_ = 0;
}

std::optional<DistributedSampler::Part> DistributedSampler::next() {
  if (batch_ >= batches()) return std::nullopt;
  const auto whole = global_batch_places(samples_, batch_++, options_.global_batch);
  const auto own = part_of(whole, options_.shard);
  Part part{.indices = std::vector<std::int64_t>(static_cast<std::size_t>(own.size())), .global_samples = whole.size()};
  EpochOrder(samples_, options_.seed, epoch_, options_.shuffle).take(own.begin, part.indices);
  return part;
}

}  // namespace lockstep
