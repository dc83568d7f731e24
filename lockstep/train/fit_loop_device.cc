// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/device/out_of_memory.h"
#include "lockstep/train/fit_loop.h"

namespace lockstep {
namespace {

// What the first update will allocate, where there was none yet: a momentum, or Adam's two means.
std::int64_t state_to_come(torch::optim::Optimizer& optimizer, const std::vector<at::Tensor>& trained) {
  if (!optimizer.state().empty()) return 0;
  const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&optimizer.param_groups()[0].options());
  const std::int64_t copies = sgd == nullptr ? 2 : sgd->momentum() > 0 ? 1 : 0;
  std::int64_t bytes = 0;
  for (const auto& each : trained) bytes += copies * static_cast<std::int64_t>(each.nbytes());
  return bytes;
}

}  // namespace

void FitLoop::prepare_device() {
  const auto& device = group_.device();
  if (device.is_cpu()) return;
  module_.to(device.device);
  if (!device.device.is_cpu()) train_->pin_memory();
  copies_ = device.backend->copy_stream(device.index());
  device_loss_.emplace(device.device);
  module_.metrics().defer();
}

// While the device computes: the host has nothing better to do than to wait for the loader.
void FitLoop::read_ahead() {
  if (!copies_ || is_done() || is_epoch_over()) return;
  ahead_ = read_work();
}

void FitLoop::settle_loss() {
  if (!device_loss_) return;
  // Reading them waits, too, but looks at no peer meanwhile.
  if (is_device_busy_ && group_.is_connected()) group_.await_device();
  const auto sums = device_loss_->sums();
  state_.loss_sum = sums.epoch;
  logged_loss_sum_ = sums.since_logged;
}

void FitLoop::set_loss() {
  if (device_loss_) device_loss_->set({.epoch = state_.loss_sum, .since_logged = logged_loss_sum_});
}

// The steps' time ends when the device has done them.
void FitLoop::await_device() {
  const auto& device = group_.device();
  if (device.is_cpu() || !is_device_busy_) return;
  group_.await_device();
  is_device_busy_ = false;
  const auto now = Clock::now();
  seconds_in_steps_ += seconds_between(last_step_, now);
  last_step_ = now;
}

// The training ends here, so that smaller parts of the batch may be tried for what they take.
void FitLoop::explain_shortage(const Work& work) {
  const auto& device = group_.device();
  const auto& batch = work.batches.front();
  MemoryShortage shortage{.device = device.description(), .batch = batch.samples()};
  parallel_.reset();
  graph_.reset();
  optimizer_->zero_grad();
  if (!device.is_cpu()) {
    const auto memory = device.memory();
    shortage.kept = memory.held + state_to_come(*optimizer_, trained_);
    shortage.usable = memory.held + memory.available;
    // Layers that talk to other ranks would wait for them.
    for (auto samples = batch.samples() / 2; !statistics_ && samples > 0 && shortage.peaks.size() < 2; samples /= 2) {
      const auto peak = peak_of(batch, samples);
      if (peak) shortage.peaks.push_back({samples, *peak + state_to_come(*optimizer_, trained_)});
    }
  }
  throw OutOfMemory(shortage);
}

std::optional<std::int64_t> FitLoop::peak_of(const Batch& batch, std::int64_t samples) {
  const auto& device = group_.device();
  device.backend->forget_peak(device.index());
  std::optional<std::int64_t> peak;
  try {
    module_.metrics().begin_batch(samples);
    at::Tensor loss;
    {
      const AutocastScope autocast(options_.step.precision, trained_[0].device());
      loss = module_.training_step(first_of(batch, samples));
    }
    loss.backward();
    peak = device.memory().peak;
  } catch (const c10::OutOfMemoryError&) {
    peak.reset();
  }
  optimizer_->zero_grad();
  return peak;
}

}  // namespace lockstep
