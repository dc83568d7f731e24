// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
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
  if (device.is_cpu()) {
    if (options_.step.device.keep_data == Toggle::kOn) {
      throw Error(ErrorKind::kRecipe, "data.on_device is on, but this rank computes on a CPU",
                  "leave it at auto, which keeps samples where there is a GPU");
    }
    return;
  }
  module_.to(device.device);
  if (!device.device.is_cpu()) train_->pin_memory();
  keep_samples(*train_, "training");
  copies_ = device.backend->copy_stream(device.index());
  device_loss_.emplace(device.device);
  module_.metrics().defer();
}

void FitLoop::keep_samples(Loader& loader, const std::string& part) {
  if (options_.step.device.keep_data == Toggle::kOff) return;
  const auto reason = why_not_kept(loader);
  if (reason.empty()) {
    const auto bytes = DeviceCache::bytes_of(*loader.source().fixed());
    loader.cache_on(group_.device().device);
    kept_bytes_ += bytes;
    found_[part + " data"] = "kept on the device: " + human_bytes(static_cast<std::uint64_t>(bytes));
  } else if (options_.step.device.keep_data == Toggle::kOn) {
    throw Error(ErrorKind::kRecipe, "data.on_device is on, but the " + part + " data cannot be kept there: " + reason,
                "leave it at auto, which keeps them where it can");
  }
}

// Empty where they are to be kept.
std::string FitLoop::why_not_kept(const Loader& loader) const {
  if (options_.step.replicas > 1) return "trainer.strategy dp hands parts of a batch to several devices";
  const auto fixed = loader.source().fixed();
  if (!fixed) return "chance changes more of a sample than which pixels are taken";
  if (options_.step.device.keep_data == Toggle::kOn) return {};
  // A rank decodes its own part in an epoch, and would have to decode everybody's.
  if (!loader.source().is_in_memory() && group_.world() > 1) return "each rank would decode all of them";
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  constexpr std::int64_t kShare = 16;
  const auto limit = std::min(kMost, group_.device().memory().available / kShare);
  return DeviceCache::bytes_of(*fixed) <= limit ? "" : "they are many";
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
    shortage.samples = kept_bytes_;
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
      loss = module_.training_step(materialize(head(batch, samples)));
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
