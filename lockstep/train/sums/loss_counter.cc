// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/sums/loss_counter.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep {

LossCounter::LossCounter(Group& group) : group_(group) {
  const auto& device = group.device();
  if (!device.is_cpu()) on_device_.emplace(device.device);
}

void LossCounter::add(const at::Tensor& mean, std::int64_t samples, std::int64_t step) {
  if (!on_device_) {
    const auto loss = mean.item<double>();
    note(loss, step);
    return add_sum({loss * static_cast<double>(samples), samples});
  }
  on_device_->add(mean, samples);
  add_samples(samples);
}

void LossCounter::add_sum(const LossSum& sum) {
  for (auto* each : {&sums_.epoch, &sums_.since_logged}) {
    each->total += sum.total;
    each->samples += sum.samples;
  }
}

void LossCounter::add_samples(std::int64_t samples) {
  is_behind_ = true;
  sums_.epoch.samples += samples;
  sums_.since_logged.samples += samples;
}

void LossCounter::restore(const LossSums& sums) {
  sums_ = sums;
  set_device();
}

void LossCounter::begin_epoch() {
  sums_.epoch = {};
  set_device();
}

const LossSums& LossCounter::sums() {
  settle();
  return sums_;
}

double LossCounter::epoch_mean() {
  settle();
  return mean_over_ranks(sums_.epoch);
}

double LossCounter::take_logged_mean(std::int64_t step) {
  settle();
  const double mean = mean_over_ranks(sums_.since_logged);
  note(mean, step);
  sums_.since_logged = {};
  set_device();
  return mean;
}

void LossCounter::require_finite(double loss, std::int64_t step, std::int64_t epoch) {
  if (std::isfinite(loss)) return;
  note(loss, step);  // On a device it may be seen here first.
  constexpr auto kNone = std::numeric_limits<std::int64_t>::max();
  const auto steps = group_.all_gather(lost_ ? lost_->step : kNone);
  const auto first = std::ranges::min_element(steps);
  const auto text =
      group_.broadcast_text(std::to_string(lost_->loss), static_cast<int>(std::distance(steps.begin(), first)));
  throw Error(
      ErrorKind::kRecipe,
      "the training loss of epoch " + std::to_string(epoch) + " is not finite: it was " + text + " first at step " +
          std::to_string(*first),
      "lower optimizer.lr or set trainer.clip_norm, and resume from a snapshot before that step; guard.on_nonfinite "
      "= \"ignore\" goes on");
}

void LossCounter::note(double loss, std::int64_t step) {
  if (!lost_ && !std::isfinite(loss)) lost_ = LostLoss{.step = step, .loss = loss};
}

void LossCounter::settle() {
  if (!on_device_ || !is_behind_) return;
  // Reading the sums would also wait for the device, but without checking meanwhile whether a peer was lost.
  if (group_.is_connected()) group_.await_device();
  const auto there = on_device_->sums();
  sums_.epoch.total = there.epoch;
  sums_.since_logged.total = there.since_logged;
  is_behind_ = false;
}

void LossCounter::set_device() {
  if (on_device_) on_device_->set({.epoch = sums_.epoch.total, .since_logged = sums_.since_logged.total});
}

double LossCounter::mean_over_ranks(const LossSum& sum) const {
  std::array<double, 2> values = {sum.total, static_cast<double>(sum.samples)};
  auto tensor = at::from_blob(values.data(), {2}, at::kDouble);
  group_.all_reduce_sum(tensor);
  return values[1] > 0 ? values[0] / values[1] : 0;
}

}  // namespace lockstep
