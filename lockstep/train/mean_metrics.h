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
  /// After this call tensors on the CPU, too, are read only when the sums are needed.
  void defer() { defers_ = true; }
  /// Adds the mean of this batch. A tensor on a device stays there until the sums are needed. Shape: mean [].
  void add(const std::string& name, const at::Tensor& mean);
  /// Counts `samples` more samples for the names that the last batch logged on the device. The sums need no call, since
  /// a replayed step adds to them itself.
  void repeat_batch(std::int64_t samples);
  void clear();
  /// Adds the sums of `other` to these, and clears `other`.
  void take(MeanMetrics& other);
  /// Sets the sums, for a resume.
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
  /// The sums, tensors of shape [] in float64. These tensors are never replaced, because a recording adds to them.
  mutable std::map<std::string, at::Tensor> on_device_;
  std::vector<std::string> on_device_now_;  ///< Names of this batch.
  std::int64_t samples_ = 0;
  bool defers_ = false;
};

}  // namespace lockstep
