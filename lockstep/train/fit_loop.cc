// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit_loop.h"

#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/join.h"
#include "lockstep/device/dtype.h"
#include "lockstep/models/network.h"
#include "lockstep/snapshot/optimizer_state.h"
#include "lockstep/train/stop_signals.h"

namespace lockstep {
namespace {

// Random choices within a step are a pure function of seed, step and rank, so that a resumed run makes the same ones.
void seed_step(std::uint64_t seed, std::int64_t step, std::int64_t batch, int rank) {
  auto generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(mixed(mixed(seed, static_cast<std::uint64_t>(step)),
                                   mixed(static_cast<std::uint64_t>(batch), static_cast<std::uint64_t>(rank))));
}

void clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm) {
  std::vector<at::Tensor> gradients;
  for (const auto& each : parameters) {
    if (each.grad().defined()) gradients.push_back(each.grad());
  }
  if (gradients.empty()) return;
  const torch::NoGradGuard no_grad;
  const auto norm = at::stack(at::_foreach_norm(gradients)).norm();
  at::_foreach_mul_(gradients, at::clamp_max(max_norm / (norm + 1e-6), 1.0));
}

}  // namespace

FitLoop::FitLoop(const TrainerOptions& options, const std::vector<Listener*>& listeners, Module& module,
                 DataModule& data, Group& group)
    : options_(options), listeners_(listeners), module_(module), group_(group), started_(Clock::now()) {
  const Shard shard{group.rank(), group.world()};
  on_rank_zero(group, [&] { data.prepare_data(); });
  data.setup();
  train_ = data.train_loader(shard);
  if (options_.validate_every > 0) validation_ = data.validation_loader(shard);
  const auto size = train_->source().size();
  epoch_samples_ = train_->options().drop_last ? size - size % train_->options().global_batch : size;
}

FitResult FitLoop::run() {
  const StopSignals signals;
  start();
  while (!is_done()) {
    train_epoch();
    if (stopped_by_.empty() && is_epoch_over()) end_epoch();
  }
  return finish();
}

void FitLoop::start() {
  optimizer_ = module_.configure_optimizer();
  if (!options_.snapshot.folder.empty()) require_known_kind(*optimizer_);
  auto parallel = options_.step.parallel;
  state_.seed = train_->options().seed;
  if (const auto& from = options_.snapshot.resume_from) {
    state_ = restore_snapshot(*from, module_, *optimizer_);
    if (state_.seed != train_->options().seed) {
      throw Error(ErrorKind::kRecipe,
                  from->string() + " was trained with seed " + std::to_string(state_.seed) + ", this run has " +
                      std::to_string(train_->options().seed) + ": the order of samples would be another",
                  "set the same seed, or start anew with --resume none");
    }
    if (state_.data_size != train_->source().size()) {
      throw Error(ErrorKind::kData,
                  from->string() + " was trained on " + std::to_string(state_.data_size) +
                      " samples, the data set has " + std::to_string(train_->source().size()),
                  "resume with the same data set, or start anew with --resume none");
    }
    if (state_.world == group_.world() && group_.world() > 1) parallel.layout = state_.bucket_layout;
    saved_at_ = {state_.step, state_.epoch};
  }
  state_.data_size = train_->source().size();
  parallel_ = std::make_unique<DistributedDataParallel>(module_, group_, parallel);
  // Tied weights appear twice; clipped twice, they would come out too small.
  std::unordered_set<const void*> seen;
  for (const auto& each : module_.parameters()) {
    if (each.requires_grad() && seen.insert(each.unsafeGetTensorImpl()).second) trained_.push_back(each);
  }
  first_step_ = state_.step;
  first_samples_ = state_.samples;
  const auto& loader = train_->options();
  const auto global_batch = loader.global_batch * options_.step.accumulate;
  RunStarted event;
  event.run_dir = options_.snapshot.folder.parent_path();
  event.name = event.run_dir.filename().string();
  event.world = group_.world();
  event.epochs = options_.max_epochs;
  event.steps_per_epoch = batches_in_epoch(epoch_samples_, global_batch);
  event.steps_total = options_.max_steps > 0 ? options_.max_steps : options_.max_epochs * event.steps_per_epoch;
  event.global_batch = global_batch;
  event.batch = part_of({0, loader.global_batch}, loader.shard).size() * options_.step.accumulate;
  event.parameters = parameter_count(module_);
  event.first_step = state_.step;
  event.resumed_from = options_.snapshot.resume_from;
  event.facts = facts();
  tell(event);
  // From here on this rank's sums hold its own part; what was summed up before stays with rank 0.
  if (!group_.is_main()) {
    state_.digest = {};
    state_.loss_sum = 0;
    state_.loss_samples = 0;
    state_.logged.clear();
  }
  module_.metrics().restore(std::exchange(state_.logged, {}));
  last_step_ = last_save_ = Clock::now();
}

std::map<std::string, std::string> FitLoop::facts() const {
  const auto& weights = trained_.at(0);
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {{"device", weights.device().str()},
          {"dtype", dtype_name(weights.scalar_type())},
          {"torch", TORCH_VERSION},
          {"threads", std::to_string(at::get_num_threads())},
          {"host", host.data()},
          {"launcher", group_.placement().source}};
}

bool FitLoop::is_done() const {
  if (!stopped_by_.empty()) return true;
  if (options_.max_epochs > 0 && state_.epoch >= options_.max_epochs) return true;
  return options_.max_steps > 0 && state_.step >= options_.max_steps;
}

bool FitLoop::is_epoch_over() const {
  const auto left = train_->source().size() - state_.place;
  return train_->options().drop_last ? left < train_->options().global_batch : left == 0;
}

void FitLoop::train_epoch() {
  const auto global_batch = train_->options().global_batch * options_.step.accumulate;
  tell(EpochStarted{.epoch = state_.epoch,
                    .steps = batches_in_epoch(epoch_samples_, global_batch),
                    .first_step = batches_in_epoch(state_.place, global_batch)});
  module_.train();
  train_->seek(state_.epoch, state_.place);
  // The loader goes on with the next epoch once its end was heard, so an epoch that is over must not be asked again.
  while (!is_done() && !is_epoch_over()) {
    const auto work = next_work();
    LOCKSTEP_ASSERT(!work.batches.empty());
    step(work);
    after_step(work);
  }
}

FitLoop::Work FitLoop::next_work() {
  Work work;
  for (std::int64_t i = 0; i < options_.step.accumulate; ++i) {
    auto batch = train_->next();
    if (!batch) break;
    work.global_samples += batch->global_samples;
    work.batches.push_back(std::move(*batch));
  }
  return work;
}

void FitLoop::step(const Work& work) {
  raise_signals();
  for (std::size_t i = 0; i < work.batches.size(); ++i) {
    const auto& batch = work.batches[i];
    at::Tensor loss;
    if (batch.samples() > 0) {
      seed_step(options_.seed, state_.step, static_cast<std::int64_t>(i), group_.rank());
      module_.metrics().begin_batch(batch.samples());
      loss = module_.training_step(batch);
      const double sum = loss.item<double>() * static_cast<double>(batch.samples());
      state_.loss_sum += sum;
      state_.loss_samples += batch.samples();
      logged_loss_sum_ += sum;
      logged_loss_samples_ += batch.samples();
    }
    if (i + 1 < work.batches.size()) {
      const auto guard = parallel_->no_sync();
      parallel_->backward(loss, batch.samples(), work.global_samples);
    } else {
      parallel_->backward(loss, batch.samples(), work.global_samples);
    }
    for (const auto id : batch.ids) state_.digest.add(batch.epoch, id);
  }
  if (options_.step.clip_norm > 0) clip_gradients(trained_, options_.step.clip_norm);
  optimizer_->step();
  optimizer_->zero_grad();
  ++state_.step;
  state_.place += work.global_samples;
  state_.samples += work.global_samples;
}

void FitLoop::raise_signals() {
  const auto now = Clock::now();
  if (stop_wish_.empty() && StopSignals::arrived()) stop_wish_ = "signal";
  if (group_.is_main()) {
    if (options_.max_time.count() > 0 && now - started_ >= options_.max_time && stop_wish_.empty())
      stop_wish_ = "max_time";
    if (options_.snapshot.every.count() > 0 && now - last_save_ >= options_.snapshot.every)
      parallel_->raise(Signal::kSnapshot);
  }
  if (!stop_wish_.empty()) parallel_->raise(Signal::kStop);
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
  if (parallel_->agreed(Signal::kSnapshot) || (every > 0 && state_.step % every == 0)) save();
}

void FitLoop::log_loss(StepEnded& event) {
  event.loss = mean_over_ranks(logged_loss_sum_, logged_loss_samples_);
  logged_loss_sum_ = 0;
  logged_loss_samples_ = 0;
}

double FitLoop::mean_over_ranks(double sum, std::int64_t count) {
  std::array<double, 2> values = {sum, static_cast<double>(count)};
  auto tensor = at::from_blob(values.data(), {2}, at::kDouble);
  group_.all_reduce_sum(tensor);
  return values[1] > 0 ? values[0] / values[1] : 0;
}

// This rank's part of the sums becomes that of all ranks. Digests are sums modulo 2^64, so int64's wrap-around serves.
TrainingState FitLoop::state_of_all_ranks() {
  auto state = state_;
  std::array<std::int64_t, 3> counts = {static_cast<std::int64_t>(state.digest.sums[0]),
                                        static_cast<std::int64_t>(state.digest.sums[1]), state.loss_samples};
  auto counts_tensor = at::from_blob(counts.data(), {3}, at::kLong);
  auto loss_tensor = at::from_blob(&state.loss_sum, {1}, at::kDouble);
  group_.all_reduce_sum(counts_tensor);
  group_.all_reduce_sum(loss_tensor);
  for (std::size_t i = 0; i < 2; ++i) state.digest.sums[i] = static_cast<std::uint64_t>(counts[i]);
  state.loss_samples = counts[2];
  state.logged = module_.metrics().sums_over_ranks(group_);
  state.bucket_layout = parallel_->layout();
  state.world = group_.world();
  return state;
}

void FitLoop::save() {
  const auto& options = options_.snapshot;
  const SavedAt now{state_.step, state_.epoch};
  if (options.folder.empty() || saved_at_ == now) return;
  const auto start = Clock::now();
  parallel_->broadcast_buffers();
  const auto state = state_of_all_ranks();
  SnapshotWritten event{.step = state.step, .epoch = state.epoch};
  on_rank_zero(group_, [&] {
    const auto written = write_snapshot(options.folder, content_of(module_, *optimizer_, state), options.keep);
    event.path = written.path;
    event.bytes = written.bytes;
  });
  saved_at_ = now;
  last_save_ = Clock::now();
  event.seconds = seconds_between(start, last_save_);
  if (group_.is_main()) tell(event);
}

// Called on every rank once a stop is agreed: the first rank that wished it says why.
std::string FitLoop::agreed_reason() {
  const auto wishes = group_.all_gather(stop_wish_.empty() ? 0 : 1);
  const auto first = std::find(wishes.begin(), wishes.end(), 1);
  LOCKSTEP_ASSERT(first != wishes.end());
  return group_.broadcast_text(stop_wish_, static_cast<int>(first - wishes.begin()));
}

FitResult FitLoop::finish() {
  if (stopped_by_.empty()) {
    const bool all_epochs = options_.max_epochs > 0 && state_.epoch >= options_.max_epochs;
    stopped_by_ = all_epochs ? "max_epochs" : "max_steps";
  }
  if (state_.place > 0 && !is_epoch_over()) {
    state_.metrics["train_loss"] = mean_over_ranks(state_.loss_sum, state_.loss_samples);
  }
  save();
  parallel_->broadcast_buffers();
  FitResult result;
  result.state = state_of_all_ranks();
  result.steps_now = state_.step - first_step_;
  result.weights_digest = weights_digest(module_);
  require_same_text(group_, ErrorKind::kBug, "the trained model", result.weights_digest,
                    "ranks have drifted apart; please report it with the recipe");
  result.stopped_by = stopped_by_;
  result.wants_requeue = stopped_by_ == "signal";
  result.seconds = seconds_between(started_, Clock::now());
  if (seconds_in_steps_ > 0)
    result.samples_per_second = static_cast<double>(state_.samples - first_samples_) / seconds_in_steps_;
  result.time_to_first_step_s = time_to_first_step_s_;
  tell(RunEnded{.step = state_.step,
                .epochs = state_.epoch,
                .samples = state_.samples,
                .stopped_by = stopped_by_,
                .seconds = result.seconds,
                .samples_per_second = result.samples_per_second,
                .time_to_first_step_s = time_to_first_step_s_.value_or(0),
                .metrics = state_.metrics});
  return result;
}

FitResult Trainer::fit(Module& module, DataModule& data) {
  auto group = join();
  return fit(module, data, group);
}

FitResult Trainer::fit(Module& module, DataModule& data, Group& group) {
  return FitLoop(options_, listeners_, module, data, group).run();
}

}  // namespace lockstep
