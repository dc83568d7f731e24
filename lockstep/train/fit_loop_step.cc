// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/module_tensors.h"
#include "lockstep/device/range_mark.h"
#include "lockstep/train/fit_loop.h"
#include "lockstep/train/model_failure.h"
#include "lockstep/train/stop_signals.h"

namespace lockstep {
namespace {

// As torch.nn.utils.clip_grad_norm_ and clip_grad_value_ do.
void clip(const std::vector<at::Tensor>& gradients, const StepOptions& options) {
  if (gradients.empty()) return;
  const torch::NoGradGuard no_grad;
  if (options.clip_norm > 0) {
    const auto norm = at::stack(at::_foreach_norm(gradients)).norm();
    at::_foreach_mul_(gradients, at::clamp_max(options.clip_norm / (norm + 1e-6), 1.0));
  }
  if (options.clip_value > 0) {
    at::_foreach_clamp_min_(gradients, -options.clip_value);
    at::_foreach_clamp_max_(gradients, options.clip_value);
  }
}

}  // namespace

// Random choices within a step are a pure function of seed, step and rank, so that a resumed run makes the same ones.
std::uint64_t FitLoop::step_seed(std::int64_t step, std::int64_t index) const {
  return mixed(mixed(options_.seed, static_cast<std::uint64_t>(step)),
               mixed(static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(group_.rank())));
}

void FitLoop::seed_step(std::int64_t index) const { seed_generators(step_seed(state_.step, index)); }

void FitLoop::seed_generators(std::uint64_t seed) const {
  const auto& device = group_.device().device;
  at::Generator(at::globalContext().defaultGenerator(device)).set_current_seed(seed);
  if (!device.is_cpu()) at::Generator(at::detail::getDefaultCPUGenerator()).set_current_seed(seed);
}

void FitLoop::seed_device(std::int64_t index) const {
  auto generator = at::globalContext().defaultGenerator(group_.device().device);
  generator.set_current_seed(step_seed(state_.step, index));
}

FitLoop::Work FitLoop::next_work() {
  auto work = ahead_ ? std::move(*ahead_) : read_work();
  ahead_.reset();
  if (copies_) {
    for (const auto& batch : work.batches) {
      if (!batch.kept) copies_->receive(batch.fields);
    }
  }
  return work;
}

FitLoop::Work FitLoop::read_work() {
  Work work;
  for (std::int64_t i = 0; i < options_.step.accumulate; ++i) {
    if (i > 0 && state_.place + work.global_samples >= epoch_samples_) break;
    auto batch = train_->next();
    if (!batch) break;
    work.global_samples += batch->global_samples;
    if (copies_ && !batch->kept) batch->fields = copies_->send(batch->fields);
    work.batches.push_back(std::move(*batch));
  }
  return work;
}

void FitLoop::step(const Work& work) {
  raise_signals();
  scheduler_->prepare(state_.step, state_.epoch);
  if (device_update_ != nullptr) device_update_->prepare_step();
  is_device_busy_ = true;
  if (!graph_plan_ || !step_by_graph(work)) step_eagerly(work);
  for (const auto& batch : work.batches) {
    for (const auto id : batch.ids) state_.digest.add(batch.epoch, id);
  }
  ++state_.step;
  state_.place += work.global_samples;
  state_.samples += work.global_samples;
  for (auto* extension : participants_.extensions) extension->after_step(state_);
}

void FitLoop::step_eagerly(const Work& work) {
  const auto& backend = *group_.device().backend;
  for (std::size_t i = 0; i < work.batches.size(); ++i) {
    const auto& batch = work.batches[i];
    const auto index = static_cast<std::int64_t>(i);
    if (i + 1 < work.batches.size()) {
      const auto guard = parallel_->no_sync();
      backward(batch, index, work.global_samples);
    } else {
      backward(batch, index, work.global_samples);
    }
  }
  const RangeMark mark(backend, "update");
  update();
}

// While a step is recorded, what LibTorch throws decides whether it can be, so it stays as it is.
template <typename Work>
void FitLoop::run_model(const Batch& batch, Work&& work) {
  if (is_recording_) return work();
  const auto where = [&] {
    return "training step " + std::to_string(state_.step + 1) + " of epoch " + std::to_string(state_.epoch);
  };
  naming_model_failures(batch, where, std::forward<Work>(work));
}

void FitLoop::backward(const Batch& batch, std::int64_t index, std::int64_t global_samples) {
  if (!replicas_) {
    const auto loss = loss_of(batch, index);
    const RangeMark mark(*group_.device().backend, "backward");
    run_model(batch, [&] { parallel_->backward(loss, batch.samples(), global_samples); });
    return;
  }
  seed_step(index);
  run_model(batch, [&] { count_loss(replicas_->run(batch, global_samples, scaler_.get()), batch.samples()); });
  // Gradients are there already; this tells of signals.
  parallel_->backward({}, 0, global_samples);
}

void FitLoop::count_loss(const at::Tensor& mean, std::int64_t samples) {
  if (!device_loss_) {
    const auto loss = mean.item<double>();
    note_loss(loss, state_.step + 1);
    return count_loss(loss * static_cast<double>(samples), samples);
  }
  device_loss_->add(mean, samples);
  state_.loss_samples += samples;
  logged_loss_samples_ += samples;
}

void FitLoop::count_loss(double sum, std::int64_t samples) {
  state_.loss_sum += sum;
  state_.loss_samples += samples;
  logged_loss_sum_ += sum;
  logged_loss_samples_ += samples;
}

// The batch's mean loss, ready for backward; undefined where this rank runs nothing.
at::Tensor FitLoop::loss_of(const Batch& batch, std::int64_t index) {
  const auto* runs = runs_for(batch);
  if (runs == nullptr) return {};
  if (!is_recording_) seed_step(index);
  const RangeMark mark(*group_.device().backend, "forward");
  module_.metrics().begin_batch(batch.samples());  // A stand-in's are none.
  const auto loss = mean_loss(*runs);
  if (batch.samples() == 0) return loss;
  count_loss(loss, batch.samples());
  return scaler_ ? scaler_->scaled(loss) : loss;
}

at::Tensor FitLoop::mean_loss(const Batch& runs) {
  const AutocastScope autocast(options_.step.precision, trained_[0].device());
  at::Tensor loss;
  run_model(runs, [&] { loss = runs.kept ? module_.training_step(materialize(runs)) : module_.training_step(runs); });
  return loss;
}

// A rank without samples runs nothing, unless BatchNorm is synchronised: then any sample, to take part in the layers'
// sums.
const Batch* FitLoop::runs_for(const Batch& batch) {
  const bool has_samples = batch.samples() > 0;
  if (statistics_) statistics_->set_takes_part(has_samples);
  if (has_samples) return &batch;
  if (!statistics_) return nullptr;
  if (!stand_in_) {
    stand_in_ = to_device(batch_of_one(train_->source(), {.seed = train_->options().seed, .epoch = 0, .id = 0}),
                          group_.device().device);
  }
  return &*stand_in_;
}

void FitLoop::update() {
  const bool clips = options_.step.clip_norm > 0 || options_.step.clip_value > 0;
  const auto gradients = scaler_ || clips ? gradients_of(trained_) : std::vector<at::Tensor>{};
  // Averaged gradients are the same on every rank, so all leave out the same steps.
  if (device_update_ != nullptr) {
    device_update_->skip_where(scaler_ ? scaler_->overflow_of(gradients) : at::Tensor());
    if (clips) clip(gradients, options_.step);
    optimizer_->step();
  } else if (!scaler_ || scaler_->unscale(gradients)) {
    if (clips) clip(gradients, options_.step);
    optimizer_->step();
  }
  optimizer_->zero_grad();
}

// Of all starts, without what a killed one did after its last snapshot.
double FitLoop::seconds_of_run() const { return seconds_before_ + seconds_between(started_, Clock::now()); }

void FitLoop::raise_signals() {
  const auto now = Clock::now();
  if (stop_reason_.empty() && StopSignals::arrived()) stop_reason_ = "signal";
  if (group_.is_main()) {
    const auto limit = static_cast<double>(options_.max_time.count());
    if (limit > 0 && seconds_of_run() >= limit && stop_reason_.empty()) stop_reason_ = "max_time";
    if (options_.snapshot.every.count() > 0 && now - last_save_ >= options_.snapshot.every)
      parallel_->raise(Signal::kSnapshot);
  }
  if (!stop_reason_.empty()) parallel_->raise(Signal::kStop);
}

void FitLoop::after_step(const Work& work) {
  const auto now = Clock::now();
  StepEnded event;
  event.step = state_.step;
  event.epoch = state_.epoch;
  event.step_in_epoch = batches_in_epoch(state_.place, train_->options().global_batch * options_.step.accumulate);
  event.samples = work.global_samples;
  event.seconds = seconds_between(last_step_, now);
  event.learning_rate = optimizer_->param_groups()[0].options().get_lr();
  seconds_in_steps_ += event.seconds;
  last_step_ = now;
  if (!time_to_first_step_s_) time_to_first_step_s_ = seconds_since_process_start();
  if (options_.log_every > 0 && state_.step % options_.log_every == 0) log_loss(event);
  tell(event);
  if (parallel_->agreed(Signal::kStop)) stopped_by_ = agreed_reason();
  const auto every = options_.snapshot.every_steps;
  // On a GPU, a request is observed one step late and stays raised until then: the step after the snapshot hears it
  // once more.
  const bool is_echo = !group_.device().is_cpu() && saved_at_ && saved_at_->step + 1 == state_.step;
  if ((parallel_->agreed(Signal::kSnapshot) && !is_echo) || (every > 0 && state_.step % every == 0)) save();
}

void FitLoop::log_loss(StepEnded& event) {
  settle_loss();
  event.loss = mean_over_ranks(logged_loss_sum_, logged_loss_samples_);
  note_loss(*event.loss, state_.step);
  logged_loss_sum_ = 0;
  logged_loss_samples_ = 0;
  set_loss();
}

void FitLoop::note_loss(double loss, std::int64_t step) {
  if (!lost_ && !std::isfinite(loss)) lost_ = LostLoss{.step = step, .loss = loss};
}

// Collective if the sum, which is the same on all ranks, is not finite.
void FitLoop::require_finite(double loss_sum) {
  if (std::isfinite(loss_sum) || !options_.guard.stop_on_nonfinite) return;
  note_loss(loss_sum, state_.step);  // On a device it may be seen here first.
  constexpr auto kNone = std::numeric_limits<std::int64_t>::max();
  const auto steps = group_.all_gather(lost_ ? lost_->step : kNone);
  const auto first = std::ranges::min_element(steps);
  const auto loss =
      group_.broadcast_text(std::to_string(lost_->loss), static_cast<int>(std::distance(steps.begin(), first)));
  throw Error(
      ErrorKind::kRecipe,
      "the training loss of epoch " + std::to_string(state_.epoch) + " is not finite: it was " + loss +
          " first at step " + std::to_string(*first),
      "lower optimizer.lr or set trainer.clip_norm, and resume from a snapshot before that step; guard.on_nonfinite "
      "= \"ignore\" goes on");
}

double FitLoop::mean_over_ranks(double sum, std::int64_t count) {
  std::array<double, 2> values = {sum, static_cast<double>(count)};
  auto tensor = at::from_blob(values.data(), {2}, at::kDouble);
  group_.all_reduce_sum(tensor);
  return values[1] > 0 ? values[0] / values[1] : 0;
}

}  // namespace lockstep
