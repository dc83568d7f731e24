// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/fit_loop.h"

#include <torch/torch.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/device/device_failure.h"
#include "lockstep/observe/early_stopping.h"
#include "lockstep/train/fit/memory_shortage.h"
#include "lockstep/train/fit/run_events.h"
#include "lockstep/train/run_facts.h"
#include "lockstep/watch/page.h"

namespace lockstep {
namespace {

// Names of the numbers that the loop itself keeps in the state. The first is set if a stop came between two moments:
// extensions had been told of the epoch's end, but the epoch was not closed yet.
constexpr const char* kEpochWasHeard = "extensions.heard_epoch";
constexpr const char* kSeconds = "run.seconds";
constexpr const char* kSnapshotMonitor = "snapshot.monitor";

}  // namespace

FitLoop::FitLoop(const TrainerOptions& options, const Participants& participants, Module& module, DataModule& data,
                 Group& group)
    : options_(options),
      participants_(participants),
      group_(group),
      timer_(group),
      lead_(group.device()),
      data_(data, options, group),
      scopes_(options.step, group.device()),
      model_(module, group, options.step, training_plan(options, data_)),
      samples_(options.step, group),
      forward_(module, group, options, data_),
      losses_(group),
      keeper_(model_, data_, losses_, participants_, options.snapshot),
      validator_(model_, data_, forward_, participants_, options.step),
      healer_(model_, losses_, keeper_, participants_, options.step) {
  keeper_.stop_on_nonfinite(options.guard.on_nonfinite != OnNonfinite::kIgnore);
}

FitResult FitLoop::run() {
  start();
  while (true) {
    try {
      return train();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kPeer || !healer_.is_on()) throw;
      if (!recovers()) throw;
    }
  }
}

FitResult FitLoop::train() {
  if (healer_.owes_step_end()) {
    end_step(healer_.step_samples());
    if (!stop_.is_agreed() && data_.is_epoch_over(state_.place)) end_epoch();
  }
  healer_.paid_step_end();
  while (!is_done()) train_epoch();
  return finish();
}

// Continues after the loss of a peer. Returns false if no new process takes the peer's place.
bool FitLoop::recovers() {
  Page::own().enter(Phase::kStarting, state_.step);
  graph_->clear();
  const auto healed = healer_.try_to_heal();
  if (!healed) return false;
  state_ = *healed;
  stop_.forget_agreement();
  guard_->restart(state_.step);
  is_best_ = false;
  model_.module().train();
  timer_.restart();
  return true;
}

void FitLoop::start() {
  const auto& device = group_.device();
  if (!device.is_cpu() && !device.device.is_cpu()) data_.train().pin_memory();
  samples_.keep(data_.train(), "training");
  feed_.emplace(data_, options_.step.accumulate, device);
  const bool is_newcomer = healer_.is_newcomer();
  state_ = is_newcomer ? healer_.heal() : keeper_.begin(options_.step.parallel);
  if (const auto it = state_.numbers.find(kSeconds); it != state_.numbers.end()) timer_.add_earlier(it->second);
  steps_.emplace(model_, forward_, losses_, options_.step);
  graph_.emplace(model_, *steps_, forward_, losses_, options_);
  guard_.emplace(model_, data_, forward_, losses_, options_.guard);
  for (auto* extension : participants_.extensions()) extension->start(model_.module());
  first_ = state_;
  if (is_newcomer) {
    healer_.restore_first(first_);
    guard_->restart(state_.step);
  }
  graph_->plan(data_);
  if (group_.is_main()) {
    control_.emplace(options_.snapshot.folder.parent_path(), Environment::of_process());
    stop_.watch([this] {
      const bool has_stepped = timer_.time_to_first_step().has_value();
      return control_->reason_to_stop(has_stepped ? std::optional(timer_.longest_step()) : std::nullopt);
    });
  }
  if (options_.guard.sanity_check && !is_newcomer && !is_done()) check_sanity();
  announce();
  // The host is ahead of a device. Without the waits it would queue an update behind a sum that may be torn, and would
  // read from a device that never answers.
  const bool waits = healer_.is_on() && !device.is_cpu();
  steps_->call_before_averaging([this, waits] {
    if (waits) group_.await_device();
    healer_.note_forward(state_.step + 1, digest_);
  });
  if (waits) steps_->call_before_update([this] { group_.await_device(); });
  healer_.begin(state_);
  timer_.restart();
  last_save_ = Clock::now();
}

void FitLoop::check_sanity() {
  auto monitors = participants_.monitors();
  if (const auto& metric = options_.snapshot.monitor; !metric.empty()) monitors.push_back({kSnapshotMonitor, metric});
  if (auto metric = model_.scheduler().monitor(); !metric.empty()) monitors.push_back({"plateau", std::move(metric)});
  SanityCheck(model_, data_, forward_, options_.step).run(monitors);
}

void FitLoop::announce() {
  auto event = run_started(options_, data_, model_);
  // A healed rank reports the step that it returned to once more.
  event.first_step = state_.step - (healer_.owes_step_end() ? 1 : 0);
  event.first_epoch = state_.epoch;
  participants_.tell(event, stop_);
}

bool FitLoop::is_done() const {
  if (stop_.is_agreed()) return true;
  if (options_.max_epochs > 0 && state_.epoch >= options_.max_epochs) return true;
  return options_.max_steps > 0 && state_.step >= options_.max_steps;
}

void FitLoop::train_epoch() {
  keeper_.wait_for_copy();  // A listener of the user's own may change weights.
  if (ToldEvents::is_new(told_.epoch, state_.epoch)) {
    participants_.tell(EpochStarted{.epoch = state_.epoch,
                                    .steps = data_.steps_for(data_.epoch_samples()),
                                    .first_step = data_.steps_for(state_.place)},
                       stop_);
  }
  model_.module().train();
  feed_->seek(state_.epoch, state_.place);
  // After an epoch's end, the loader's next read would begin the next epoch. So an epoch that is over is not read.
  while (!is_done() && !data_.is_epoch_over(state_.place)) {
    const auto batches = feed_->next(state_.place);
    make_step(batches);
    if (!is_done() && !data_.is_epoch_over(state_.place)) feed_->read_ahead(state_.place);
    end_step(batches.global_samples);
  }
  if (!stop_.is_agreed() && data_.is_epoch_over(state_.place)) end_epoch();
}

void FitLoop::make_step(const StepBatches& batches) {
  Page::own().begin_batch(state_.step, batches.batches.front().ids);
  model_.raise(signals());
  model_.prepare_step(state_.step, state_.epoch);
  timer_.note_work();
  digest_ = state_.digest;
  for (const auto& batch : batches.batches) {
    for (const auto id : batch.ids) digest_.add(batch.epoch, id);
  }
  guard_->before_step();
  try {
    graph_->run(batches, place());
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    graph_->clear();
    throw_out_of_memory(model_, batches.batches.front(),
                        {.sample_bytes = samples_.bytes(),
                         .may_try = !forward_.is_synchronised(),
                         .precision = options_.step.precision});
  }
  if (!guard_->after_step(batches, place())) leave_out_step();
  lead_.after_step(group_.watch());
  count_step(batches);
}

void FitLoop::count_step(const StepBatches& batches) {
  ++state_.step;
  state_.digest = digest_;
  state_.place += batches.global_samples;
  state_.samples += batches.global_samples;
  for (auto* extension : participants_.extensions()) extension->after_step(state_);
  healer_.note_update(state_, batches.global_samples);
}

// Leaves out the step that was just made, because its gradients were not finite. The samples of this step count as
// seen, so after a rollback the training continues with the samples that follow.
void FitLoop::leave_out_step() {
  ++state_.numbers[kLeftOutNumber];
  healer_.note_forward(state_.step + 1, digest_);  // The guard has taken its sums and buffers back.
  if (options_.guard.on_nonfinite != OnNonfinite::kRollback || options_.snapshot.folder.empty()) return;
  tell(keeper_.wait_for_earlier());
  graph_->clear();  // It was recorded with the optimizer's tensors, which are replaced.
  healer_.begin_change();
  if (keeper_.roll_back()) ++state_.numbers[kRollbacksNumber];
  healer_.end_change();
}

// Rank 0's clock decides for all ranks.
StepSignals FitLoop::signals() {
  stop_.ask_if_due();
  StepSignals signals;
  if (group_.is_main()) {
    const auto limit = static_cast<double>(options_.max_time.count());
    if (limit > 0 && timer_.seconds_of_run() >= limit) stop_.ask("max_time");
    const auto every = options_.snapshot.every;
    signals.snapshot = every.count() > 0 && Clock::now() - last_save_ >= every;
    signals.snapshot = signals.snapshot || control_->wants_save();
  }
  signals.stop = stop_.is_asked();
  return signals;
}

void FitLoop::end_step(std::int64_t samples) {
  auto event = step_ended(state_, samples, data_, model_);
  event.seconds = timer_.end_step();
  if (options_.log_every > 0 && state_.step % options_.log_every == 0) {
    event.loss = losses_.take_logged_mean(state_.step);
  }
  if (ToldEvents::is_new(told_.step, state_.step)) participants_.tell(event, stop_);
  if (model_.parallel().agreed(Signal::kStop)) stop_.take_reason(group_);
  const bool is_asked = model_.parallel().agreed(Signal::kSnapshot) && !keeper_.is_echo(state_);
  const auto every = options_.snapshot.every_steps;
  if (state_.step == first_.step + 1) keeper_.prepare();
  tell(keeper_.written());
  const bool saves = is_asked || (every > 0 && state_.step % every == 0);
  if (!saves) guard_->compare(state_.step, event.seconds, /*is_save=*/false);
  if (saves) save();
  if (keeper_.holds(state_)) hold();
}

void FitLoop::end_epoch() {
  Page::own().enter(Phase::kValidation, state_.step);
  timer_.await_device();
  guard_->settle();
  // Averages of weights change at the end of an epoch, and validation exchanges weights and averages. A save must have
  // copied both before.
  keeper_.wait_for_copy();
  graph_->interrupt();
  state_.metrics["train_loss"] = losses_.epoch_mean();
  if (options_.guard.on_nonfinite != OnNonfinite::kIgnore) {
    losses_.require_finite(state_.metrics["train_loss"], state_.step, state_.epoch);
  }
  const auto logged = model_.module().metrics().over_ranks(group_);
  for (const auto& [name, value] : logged) state_.metrics[name] = value;
  if (state_.numbers.erase(kEpochWasHeard) == 0) {
    for (auto* extension : participants_.extensions()) extension->after_epoch(state_);
    healer_.note_epoch_heard(kEpochWasHeard);
  }
  is_best_ = false;
  const bool is_last = state_.epoch + 1 == options_.max_epochs;
  // A stop in mid-validation leaves the epoch open, as a failure does. The resumed run validates again.
  if ((is_due_at_epochs_end(options_.data.validate_every) || is_last) && !validate(logged)) {
    state_.numbers[kEpochWasHeard] = 1;
    return;
  }
  const bool saves = is_due_at_epochs_end(options_.snapshot.every_epochs) || is_best_;
  ++state_.epoch;
  state_.place = 0;
  losses_.begin_epoch();
  model_.module().metrics().clear();
  if (saves) save();
}

bool FitLoop::is_due_at_epochs_end(std::int64_t every) const { return every > 0 && (state_.epoch + 1) % every == 0; }

// Returns false if the validation was stopped.
bool FitLoop::validate(const Validator::Metrics& logged) {
  const auto start = Clock::now();
  ValidationEnded event{.step = state_.step, .epoch = state_.epoch, .metrics = logged};
  event.train_loss = state_.metrics["train_loss"];
  if (auto* loader = data_.validation()) {
    graph_->make_room_for_pass(loader->options().global_batch);
    if (!std::exchange(is_validation_kept_, true)) samples_.keep(*loader, "validation");
    const auto metrics = validator_.validate(place(), stop_, [this] { save_open_epoch(); });
    if (!metrics) return false;
    event.samples = std::min(data_.validation_samples(), loader->source().size());
    for (const auto& [name, value] : *metrics) event.metrics[name] = state_.metrics[name] = value;
  }
  try {
    judge(event);
  } catch (const Error&) {  // On every rank: a metric is missing.
    save_open_epoch();
    throw;
  }
  event.seconds = seconds_between(start, Clock::now());
  if (ToldEvents::is_new(told_.validation, state_.step)) participants_.tell(event, stop_);
  // Listeners' answers to the metrics must not wait for the next step, since there may be none.
  stop_.agree_now(model_.parallel(), group_);
  timer_.restart();
  return true;
}

// Passes a validation's metrics to the schedule, and finds if this is the best snapshot. An exception changes nothing.
void FitLoop::judge(const ValidationEnded& event) {
  const auto& monitor = options_.snapshot.monitor;
  const auto value = monitor.empty() ? std::nullopt : std::optional(monitored(event, monitor, kSnapshotMonitor));
  auto observed = event.metrics;
  observed.emplace("train_loss", event.train_loss);
  model_.scheduler().observe(observed);
  is_best_ = value && std::isfinite(event.train_loss) && takes_best(options_.snapshot, *value, state_.numbers);
}

void FitLoop::save_open_epoch() {
  state_.numbers[kEpochWasHeard] = 1;
  save();
}

void FitLoop::save() {
  if (keeper_.is_saved(state_)) return;
  Page::own().enter(Phase::kSaving, state_.step);
  timer_.await_device();
  guard_->compare(state_.step, timer_.longest_step(), /*is_save=*/true);
  refresh_statistics();
  graph_->interrupt();
  if (options_.max_time.count() > 0) state_.numbers[kSeconds] = timer_.seconds_of_run();
  tell(keeper_.wait_for_earlier());
  if (control_) control_->begin_save(state_.step);
  keeper_.save(state_, std::exchange(is_best_, false));
  last_save_ = Clock::now();
  timer_.restart();
}

// Unlike save(), this does not compare the ranks' states. The held one is correct until a comparison differs.
void FitLoop::hold() {
  Page::own().enter(Phase::kSaving, state_.step);
  timer_.await_device();
  graph_->interrupt();
  if (options_.max_time.count() > 0) state_.numbers[kSeconds] = timer_.seconds_of_run();
  keeper_.hold(state_);
}

void FitLoop::tell(const std::optional<SnapshotWritten>& event) {
  if (!event) return;
  if (control_) control_->written(*event);
  participants_.tell(*event, stop_);
}

// Computes the BatchNorm statistics of averaged weights. If there is a validation, it has computed them already.
void FitLoop::refresh_statistics() {
  if (!participants_.want_fresh_statistics()) return;
  keeper_.wait_for_copy();
  graph_->make_room_for_pass(data_.train().options().global_batch);
  if (validator_.refresh_statistics(place(), stop_)) keeper_.forget();
  feed_->seek(state_.epoch, state_.place);
}

FitResult FitLoop::finish() {
  if (!stop_.is_agreed()) {
    const bool all_epochs = options_.max_epochs > 0 && state_.epoch >= options_.max_epochs;
    stop_.end(all_epochs ? "max_epochs" : "max_steps");
  }
  Page::own().enter(Phase::kEnding, state_.step);
  timer_.await_device();
  if (keeper_.is_saved(state_)) guard_->compare(state_.step, timer_.longest_step(), /*is_save=*/true);
  if (state_.place > 0 && !data_.is_epoch_over(state_.place)) state_.metrics["train_loss"] = losses_.epoch_mean();
  refresh_statistics();
  save();
  tell(keeper_.settle(state_));
  model_.parallel().broadcast_buffers();
  FitResult result;
  result.state = keeper_.all_ranks(state_);
  result.steps_now = state_.step - first_.step;
  result.weights_digest = weights_digest(model_.module());
  require_same_text(group_, ErrorKind::kBug, "the trained model", result.weights_digest,
                    "ranks have drifted apart; please report it with the recipe");
  result.found = findings();
  result.stopped_by = stop_.stopped_by();
  result.wants_requeue = wants_requeue(result.stopped_by);
  result.seconds = timer_.seconds();
  if (timer_.seconds_in_steps() > 0) {
    result.samples_per_second = static_cast<double>(state_.samples - first_.samples) / timer_.seconds_in_steps();
  }
  result.time_to_first_step_s = timer_.time_to_first_step();
  auto ended = run_ended(result, state_);
  ended.device_peak_bytes = peak_bytes(group_.device());
  participants_.tell(ended, stop_);
  return result;
}

std::map<std::string, std::string> FitLoop::findings() const {
  auto found = samples_.findings();
  found.merge(counts_in(state_.numbers));
  if (graph_->finding()) found["graph"] = *graph_->finding();
  return found;
}

}  // namespace lockstep
