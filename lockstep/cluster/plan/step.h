// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/cluster/plan/network.h"

namespace lockstep {

/// What a rank of average speed does in one step, in seconds, where it waits for nobody.
struct RankWork {
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;
  double read_s = 0;  ///< Of its loader.

  double compute_s() const { return forward_s + backward_s + update_s; }
};

/// How ranks differ, as standard deviations over the mean.
struct RankSpread {
  double devices = 0;  ///< Of a device's own speed, for good.
  double steps = 0;    ///< Of one rank's steps, each by chance.
};

/// Gradients that travel together.
struct PlanBucket {
  double bytes = 0;
  double ready = 1;  ///< Share of the backward pass after which all of it is there.
};

/// Buckets as c10d's reducer makes them after its first step: in the order in which gradients come, the first of at
/// most 1 MiB, so that the network begins early.
std::vector<PlanBucket> plan_buckets(std::vector<PlanGradient> gradients, double bucket_bytes);

/// A job that takes steps.
struct StepQuestion {
  RankWork work;
  std::vector<PlanBucket> buckets{};
  RankLayout at;
  PlanLinks links{};
  RankSpread spread{};
  bool overlaps = true;     ///< All-reduces and loaders do not take time from the computation.
  bool reads_ahead = true;  ///< A batch is read while the step before runs.
};

/// A mean step and what it is made of.
struct StepTime {
  double seconds = 0;
  double compute_s = 0;  ///< Of a rank of average speed.
  double waiting_s = 0;  ///< For the slowest rank.
  double exposed_s = 0;  ///< All-reduces that the backward pass does not hide.
  double reduce_s = 0;   ///< All of them, hidden or not.
  double data_s = 0;     ///< For the loader.
};

/// The mean over simulated steps: in each, every rank draws its speed, a bucket sets out when the slowest rank has it
/// and the one before has arrived, and the update begins when all are there. The same question has the same answer.
StepTime simulated_step(const StepQuestion& question);

/// Returns of each simulated step how many times the average the slowest rank takes. Drawing is most of a simulation:
/// whoever asks the same of other work or links draws once.
std::vector<double> slowest_ranks(int ranks, const RankSpread& spread);
StepTime simulated_step(const StepQuestion& question, const std::vector<double>& slowest);

}  // namespace lockstep
