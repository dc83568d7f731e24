// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "lockstep/cluster/plan/network.h"

namespace lockstep {

/// The work of one step, in seconds of a rank with average speed that never waits.
struct RankWork {
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;
  double read_s = 0;  ///< Of its loader.

  double compute_s() const { return forward_s + backward_s + update_s; }
};

/// How much ranks differ in speed: standard deviations divided by the mean.
struct RankSpread {
  double devices = 0;  ///< Of a device's own speed, for good.
  double steps = 0;    ///< Of one rank's steps, each by chance.
};

/// Gradients that travel together.
struct PlanBucket {
  double bytes = 0;
  double ready = 1;  ///< Share of the backward pass after which all of it is there.
};

/// Returns the buckets of c10d's reducer after its first step. They are in the order in which gradients are ready. The
/// first bucket has at most 1 MiB, so that sending begins early.
std::vector<PlanBucket> plan_buckets(std::vector<PlanGradient> gradients, double bucket_bytes);

/// A job whose steps are simulated.
struct StepQuestion {
  RankWork work;
  std::vector<PlanBucket> buckets{};
  RankLayout at;
  PlanLinks links{};
  RankSpread spread{};
  bool overlaps = true;     ///< All-reduces and loaders do not take time from the computation.
  bool reads_ahead = true;  ///< A batch is read while the step before runs.
  /// The time that averaging adds to a step, if it was measured with this number of ranks. Then buckets are not
  /// simulated.
  std::optional<double> averaging_s{};
};

/// The time of a mean step, and of its parts.
struct StepTime {
  double seconds = 0;
  double compute_s = 0;  ///< Of a rank of average speed.
  double waiting_s = 0;  ///< For the slowest rank.
  double exposed_s = 0;  ///< All-reduces that the backward pass does not hide.
  double reduce_s = 0;   ///< All of them, hidden or not.
  double data_s = 0;     ///< For the loader.
};

/// Returns the mean over simulated steps. In each step every rank draws its speed. A bucket starts when the slowest
/// rank has it and the bucket before has arrived. The update begins when all buckets have arrived. The same input
/// always gives the same result.
StepTime simulated_step(const StepQuestion& question);

/// Returns for each simulated step the slowest rank's time, as a multiple of the average. Drawing takes most of the
/// time of a simulation. So a caller that varies only work or links can draw once.
std::vector<double> slowest_ranks(int ranks, const RankSpread& spread);
StepTime simulated_step(const StepQuestion& question, const std::vector<double>& slowest);

}  // namespace lockstep
