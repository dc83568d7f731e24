// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Means over the samples of all ranks, by name. Module::log() uses one, and your own loop may, too.
///
///     lockstep::MeanMetrics metrics;
///     metrics.begin_batch(input.size(0));
///     metrics.add("loss", loss);
///     for (const auto& [name, mean] : metrics.over_ranks(world)) std::cout << name << " " << mean << "\n";

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/snapshot/snapshot.h"

namespace lockstep {

/// Gathers means over samples, by name. Sums are double and counts int64, so the parts of all ranks and of all starts
/// of a run add up to the whole.
class MeanMetrics {
 public:
  /// Sets the number of samples of the next add() calls.
  void begin_batch(std::int64_t samples) {
    samples_ = samples;
    on_device_now_.clear();
  }
  void add(const std::string& name, double mean);
  /// Delays the reading of all tensors, also those on the CPU, until sums are asked for.
  void defer() { defers_ = true; }
  /// Adds the mean of this batch. A tensor on a device stays there until sums are asked for. Shape: mean [].
  void add(const std::string& name, const at::Tensor& mean);
  /// Counts `samples` more samples for the names that the last batch logged on the device. A recorded step adds to the
  /// sums itself when it is replayed.
  void repeat_batch(std::int64_t samples);
  void clear();
  /// Adds the sums of `other` to these, and clears `other`.
  void take(MeanMetrics& other);
  /// Goes on from earlier sums.
  void restore(MetricSums sums) { sums_ = std::move(sums); }

  /// Returns this rank's sums.
  const MetricSums& sums() const;
  /// Returns the sums over all samples of all ranks.
  ///
  /// Collective: yes. Throws: Error(kUsage) if a rank logged a name that rank 0 did not.
  MetricSums sums_over_ranks(Group& group) const;
  /// Returns the means over all samples of all ranks. A name without samples is left out. Collective: yes.
  std::map<std::string, double> over_ranks(Group& group) const;

 private:
  void settle() const;

  mutable MetricSums sums_;  ///< For names in on_device_, only the samples until settle() adds the sums.
  /// Sums, [] float64. They are never replaced, because a recording adds to them.
  mutable std::map<std::string, at::Tensor> on_device_;
  std::vector<std::string> on_device_now_;  ///< Names of this batch.
  std::int64_t samples_ = 0;
  bool defers_ = false;
};

}  // namespace lockstep
