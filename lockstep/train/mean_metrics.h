// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/comm/group.h"
#include "lockstep/snapshot/snapshot.h"

namespace lockstep {

/// Means over samples, by name: sums and counts in double and int64, so that ranks' parts, and those of a run's starts,
/// add up to the whole.
class MeanMetrics {
 public:
  /// Samples that the next add() calls speak for.
  void begin_batch(std::int64_t samples) { samples_ = samples; }
  void add(const std::string& name, double mean);
  void clear() { sums_.clear(); }
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
  MetricSums sums_;
  std::int64_t samples_ = 0;
};

}  // namespace lockstep
