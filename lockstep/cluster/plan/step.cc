// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/plan/step.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/base/checksum.h"

namespace lockstep {
namespace {

constexpr double kFirstBucketBytes = 1 << 20;

/// Random numbers that are the same on every machine, from a mixed counter and Box and Muller's transform.
class SampleRng {
 public:
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  double uniform() { return (static_cast<double>(mixed(1, ++count_) >> 11U) + 1) * 0x1p-53; }

  std::uint64_t count_ = 0;
};

/// One step in which the slowest rank takes `factor` times the average, and averaging `exposed_s` more.
StepTime step_of_parts(const StepQuestion& question, double factor, double exposed_s) {
  const auto& work = question.work;
  StepTime step;
  step.exposed_s = exposed_s;
  step.waiting_s = (factor - 1) * work.compute_s();
  step.compute_s = work.compute_s();
  step.seconds = work.compute_s() * factor + exposed_s;
  step.data_s = question.overlaps && question.reads_ahead ? std::max(0.0, work.read_s - step.seconds) : work.read_s;
  step.seconds += step.data_s;
  return step;
}

/// One step in which the slowest rank takes `factor` times the average.
StepTime one_step(const StepQuestion& question, const std::vector<double>& reduces, double factor) {
  const auto& work = question.work;
  const double backward_from = work.forward_s * factor;
  const double backward_to = backward_from + work.backward_s * factor;
  if (question.averaging_s) return step_of_parts(question, factor, *question.averaging_s);
  double sent = question.overlaps ? 0 : backward_to;
  for (std::size_t i = 0; i < reduces.size(); ++i) {
    const double ready = backward_from + question.buckets[i].ready * work.backward_s * factor;
    sent = std::max(sent, ready) + reduces[i];
  }
  return step_of_parts(question, factor, std::max(0.0, sent - backward_to));
}

}  // namespace

std::vector<PlanBucket> plan_buckets(std::vector<PlanGradient> gradients, double bucket_bytes) {
  std::ranges::stable_sort(gradients, {}, &PlanGradient::ready);
  std::vector<PlanBucket> buckets;
  PlanBucket open{.bytes = 0, .ready = 0};
  double limit = std::min(kFirstBucketBytes, bucket_bytes);
  for (const auto& gradient : gradients) {
    open.bytes += gradient.bytes;
    open.ready = std::max(open.ready, gradient.ready);
    if (open.bytes < limit) continue;
    buckets.push_back(open);
    open = {.bytes = 0, .ready = 0};
    limit = bucket_bytes;
  }
  if (open.bytes > 0) buckets.push_back(open);
  return buckets;
}

std::vector<double> slowest_ranks(int ranks, const RankSpread& spread) {
  if (spread.devices == 0 && spread.steps == 0) return {1};
  // A job with few ranks needs many simulated steps. With many ranks few steps are enough, since the maximum over many
  // ranks varies little.
  const int jobs = std::max(16, 20000 / ranks);
  const int steps = spread.steps == 0 ? 1 : 4;
  SampleRng draws;
  std::vector<double> slowest;
  std::vector<double> own(static_cast<std::size_t>(ranks), 1);
  for (int job = 0; job < jobs; ++job) {
    for (auto& factor : own) factor = spread.devices == 0 ? 1 : 1 + spread.devices * draws.normal();
    for (int step = 0; step < steps; ++step) {
      double most = 0;
      for (const auto factor : own) {
        most = std::max(most, spread.steps == 0 ? factor : factor * (1 + spread.steps * draws.normal()));
      }
      slowest.push_back(most);
    }
  }
  return slowest;
}

StepTime simulated_step(const StepQuestion& question, const std::vector<double>& slowest) {
  std::vector<double> reduces;
  StepTime mean;
  if (question.averaging_s) mean.reduce_s = *question.averaging_s;
  for (const auto& bucket : question.averaging_s ? std::vector<PlanBucket>{} : question.buckets) {
    reduces.push_back(all_reduce_seconds(bucket.bytes, question.at, question.links));
    mean.reduce_s += reduces.back();
  }
  const auto count = static_cast<double>(slowest.size());
  for (const double factor : slowest) {
    const auto step = one_step(question, reduces, factor);
    mean.seconds += step.seconds / count;
    mean.compute_s += step.compute_s / count;
    mean.waiting_s += step.waiting_s / count;
    mean.exposed_s += step.exposed_s / count;
    mean.data_s += step.data_s / count;
  }
  return mean;
}

StepTime simulated_step(const StepQuestion& question) {
  return simulated_step(question, slowest_ranks(question.at.ranks(), question.spread));
}

}  // namespace lockstep
