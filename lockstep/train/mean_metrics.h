// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/snapshot/snapshot.h"

namespace lockstep {

/// Means over samples, by name: sums and counts in double and int64, so that ranks' parts, and those of a run's starts,
/// add up to the whole.
class MeanMetrics {
 public:
  /// Samples that the next add() calls speak for.
  void begin_batch(std::int64_t samples) {
    samples_ = samples;
    on_device_now_.clear();
  }
  void add(const std::string& name, double mean);
  /// Tensors are not read until sums are asked for, wherever they are.
  void defer() { defers_ = true; }
  /// The same for a tensor of shape []; one on a device stays there until sums are asked for.
  void add(const std::string& name, const at::Tensor& mean);
  /// Counts so many more samples for what the last batch logged on the device: a recorded step adds to the sums by
  /// itself when it is replayed.
  void repeat_batch(std::int64_t samples);
  void clear();
  /// Adds another's sums to these, and clears them there.
  void take(MeanMetrics& other);
  /// Goes on from sums of before.
  void restore(MetricSums sums) { sums_ = std::move(sums); }

  /// The sums over all samples of all ranks.
  ///
  /// Collective: yes. Throws: Error(kUsage) where a rank logged a name that rank 0 did not.
  MetricSums sums_over_ranks(Group& group) const;
  /// The same as means; a name without samples is left out.
  std::map<std::string, double> over_ranks(Group& group) const;

 private:
  void settle() const;

  mutable MetricSums sums_;  ///< Of names in on_device_ the samples alone, until settle() adds the rest.
  mutable std::map<std::string, at::Tensor>
      on_device_;                           ///< Sums, [] float64. Never replaced: a recording adds to them.
  std::vector<std::string> on_device_now_;  ///< Names of this batch.
  std::int64_t samples_ = 0;
  bool defers_ = false;
};

}  // namespace lockstep
