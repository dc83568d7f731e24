// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/comm/group.h"

namespace lockstep {

/// Means over samples, by name: sums and counts in double and int64, so that ranks' parts add up to the whole.
class MeanMetrics {
 public:
  /// Samples that the next add() calls speak for.
  void begin_batch(std::int64_t samples) { samples_ = samples; }
  void add(const std::string& name, double mean);
  void clear() { sums_.clear(); }

  /// The means over all samples of all ranks.
  ///
  /// Collective: yes. Throws: Error(kUsage) where a rank logged a name that rank 0 did not.
  std::map<std::string, double> over_ranks(Group& group) const;

 private:
  struct Sum {
    double total = 0;
    std::int64_t samples = 0;
  };
  std::map<std::string, Sum> sums_;
  std::int64_t samples_ = 0;
};

}  // namespace lockstep
