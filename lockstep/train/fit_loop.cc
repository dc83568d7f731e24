// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit_loop.h"

#include <torch/torch.h>

#include <cmath>
#include <numeric>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/leave_on_failure.h"
#include "lockstep/data/source/sources.h"
#include "lockstep/device/device_failure.h"
#include "lockstep/device/dtype.h"
#include "lockstep/models/network.h"
#include "lockstep/snapshot/optimizer_state.h"
#include "lockstep/snapshot/snapshot_lock.h"
#include "lockstep/train/stop_signals.h"

namespace lockstep {
namespace {

// In the state of a run that a stop ended after the extensions heard of an epoch's end, and before the epoch was
// closed.
constexpr const char* kEpochWasHeard = "extensions.heard_epoch";

// Below 1 a share of the batches that there are, one at least; from 1 on a number of them; 0 for all.
std::int64_t limited_samples(double limit, std::int64_t global_batch, std::int64_t samples) {
  if (limit <= 0) return samples;
  const auto batches = batches_in_epoch(samples, global_batch);
  const auto wanted = limit < 1 ? std::max<std::int64_t>(1, std::llround(limit * static_cast<double>(batches)))
                                : static_cast<std::int64_t>(limit);
  return std::min(samples, wanted * global_batch);
}

// The set's first samples in their own order, epoch after epoch.
std::unique_ptr<Loader> first_samples_of(const Loader& loader, std::int64_t samples) {
  auto options = loader.options();
  options.shuffle = false;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(std::min(loader.source().size(), samples)));
  std::iota(ids.begin(), ids.end(), 0);
  return std::make_unique<Loader>(subset(loader.shared_source(), std::move(ids)), options);
}

// While it lives, operations without a deterministic algorithm throw.
class DeterministicScope {
 public:
  explicit DeterministicScope(bool is_on) : is_on_(is_on) {
    if (!is_on_) return;
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    at::globalContext().setDeterministicCuDNN(true);
  }
  ~DeterministicScope() {
    if (!is_on_) return;
    at::globalContext().setDeterministicAlgorithms(false, false);
    at::globalContext().setDeterministicCuDNN(false);
  }
  DeterministicScope(const DeterministicScope&) = delete;
  DeterministicScope& operator=(const DeterministicScope&) = delete;

 private:
  bool is_on_;
};

// While it lives, cuDNN and MIOpen time their algorithms for each new shape and keep the fastest.
class KernelSearchScope {
 public:
  explicit KernelSearchScope(bool is_on) : before_(at::globalContext().benchmarkCuDNN()) {
    if (is_on) at::globalContext().setBenchmarkCuDNN(true);
  }
  ~KernelSearchScope() { at::globalContext().setBenchmarkCuDNN(before_); }
  KernelSearchScope(const KernelSearchScope&) = delete;
  KernelSearchScope& operator=(const KernelSearchScope&) = delete;

 private:
  bool before_;
};

std::optional<std::int64_t> device_peak_bytes(const RankDevice& device) {
  return device.is_cpu() ? std::nullopt : std::optional(device.memory().peak);
}

}  // namespace

FitLoop::FitLoop(const TrainerOptions& options, Participants participants, Module& module, DataModule& data,
                 Group& group)
    : options_(options), participants_(participants), module_(module), group_(group), started_(Clock::now()) {
  on_rank_zero(group, [&] { data.prepare_data(); });
  data.setup();
  take_data(data);
}

void FitLoop::take_data(DataModule& data) {
  const Shard shard{group_.rank(), group_.world()};
  const auto& limits = options_.data;
  train_ = data.train_loader(shard);
  if (const auto schema = data.schema()) data_schema_ = to_json(*schema);
  if (limits.overfit_batches > 0) {
    const auto samples = limits.overfit_batches * train_->options().global_batch;
    train_ = first_samples_of(*train_, samples);
    if (limits.validate_every > 0) validation_ = first_samples_of(*train_, samples);
  } else if (limits.validate_every > 0) {
    validation_ = data.validation_loader(shard);
  }
  const auto global_batch = train_->options().global_batch;
  const auto size = train_->source().size();
  epoch_samples_ = limited_samples(limits.train_batches, global_batch,
                                   train_->options().drop_last ? size - size % global_batch : size);
  if (!validation_) return;
  const auto unit = limits.validation_batch > 0 ? limits.validation_batch : validation_->options().global_batch;
  const auto all = validation_->source().size();
  validation_samples_ = limited_samples(limits.validation_batches, unit, all);
  // The loader's batches need not end where the limit does, and with it the result would depend on the ranks.
  if (validation_samples_ < all) validation_ = first_samples_of(*validation_, validation_samples_);
}

FitResult FitLoop::run() {
  const StopSignals signals;
  const Tf32Scope tf32(options_.step.precision);
  const DeterministicScope deterministic(options_.step.device.deterministic);
  const ComputeStreamScope stream(group_.device().device);
  const KernelSearchScope search(!group_.device().is_cpu() && !options_.step.device.deterministic);
  start();
  while (!is_done()) {
    train_epoch();
    if (stopped_by_.empty() && is_epoch_over()) end_epoch();
  }
  return finish();
}

void FitLoop::start() {
  prepare_device();
  optimizer_ = module_.configure_optimizer();
  if (!group_.device().is_cpu()) device_update_ = dynamic_cast<DeviceUpdate*>(optimizer_.get());
  if (!options_.snapshot.folder.empty()) require_known_kind(*optimizer_);
  scheduler_ = std::make_unique<Scheduler>(module_.configure_schedule(plan()), *optimizer_);
  // Tied weights appear twice; clipped twice, they would come out too small.
  std::unordered_set<const void*> seen;
  for (const auto& each : module_.parameters()) {
    if (each.requires_grad() && seen.insert(each.unsafeGetTensorImpl()).second) trained_.push_back(each);
  }
  if (!trained_.empty()) {
    require_precision(options_.step.precision, trained_[0].device());
    if (options_.step.precision == Precision::kFp16) scaler_ = std::make_unique<LossScaler>(trained_[0].device());
  }
  if (options_.step.sync_batchnorm) statistics_.emplace(module_, group_);
  const auto parallel = resume();
  state_.data_size = train_->source().size();
  if (scaler_ && parallel.compression.kind == Compression::kPowerSgd) {
    throw Error(ErrorKind::kRecipe,
                "trainer.compression is powersgd with precision fp16: what it keeps would be spoilt by an overflow",
                "use bf16, or compression fp16");
  }
  parallel_ = std::make_unique<DistributedDataParallel>(module_, group_, parallel);
  restore_compression();
  if (options_.step.replicas > 1) {
    if (!group_.device().is_cpu()) {
      throw Error(ErrorKind::kRecipe,
                  "strategy dp is for CPUs, and this rank computes on " + group_.device().device.str(),
                  "use strategy ddp, with one rank for each device");
    }
    if (group_.world() > 1) {
      throw Error(ErrorKind::kRecipe, "strategy dp has one rank, and there are " + std::to_string(group_.world()),
                  "start one, or use strategy ddp");
    }
    replicas_ = std::make_unique<Replicas>(module_, options_.step.replicas, options_.step.precision);
  }
  for (auto* extension : participants_.extensions) extension->start(module_);
  first_step_ = state_.step;
  first_samples_ = state_.samples;
  plan_graph();
  announce();
  // From here on this rank's sums hold its own part; what was summed up before stays with rank 0.
  if (!group_.is_main()) {
    state_.digest = {};
    state_.loss_sum = 0;
    state_.loss_samples = 0;
    state_.logged.clear();
  }
  module_.metrics().restore(std::exchange(state_.logged, {}));
  set_loss();
  last_step_ = last_save_ = Clock::now();
}

TrainingPlan FitLoop::plan() const {
  TrainingPlan plan;
  plan.epochs = options_.max_epochs;
  plan.steps_per_epoch = batches_in_epoch(epoch_samples_, train_->options().global_batch * options_.step.accumulate);
  plan.steps = options_.max_steps > 0 ? options_.max_steps : options_.max_epochs * plan.steps_per_epoch;
  return plan;
}

void FitLoop::announce() {
  const auto& loader = train_->options();
  const auto planned = plan();
  RunStarted event;
  event.run_dir = options_.snapshot.folder.parent_path();
  event.name = event.run_dir.filename().string();
  event.world = group_.world();
  event.epochs = planned.epochs;
  event.steps_per_epoch = planned.steps_per_epoch;
  event.steps_total = planned.steps;
  event.global_batch = loader.global_batch * options_.step.accumulate;
  event.batch = part_of({0, loader.global_batch}, loader.shard).size() * options_.step.accumulate;
  event.parameters = parameter_count(module_);
  event.first_step = state_.step;
  event.resumed_from = options_.snapshot.resume_from;
  event.facts = facts();
  tell(event);
}

std::map<std::string, std::string> FitLoop::facts() const {
  const auto& weights = trained_.at(0);
  std::map<std::string, std::string> all = {{"device", weights.device().str()},
                                            {"precision", precision_name(options_.step.precision)},
                                            {"torch", TORCH_VERSION},
                                            {"threads", std::to_string(at::get_num_threads())},
                                            {"host", host_name()},
                                            {"launcher", group_.placement().source}};
  const auto& device = group_.device();
  if (device.is_cpu()) return all;
  const auto runtime = device.backend->runtime();
  all.insert({{"device_name", device.facts.name},
              {"device_pci", device.facts.pci},
              {"device_uuid", device.facts.uuid},
              {"device_architecture", device.facts.architecture},
              {"driver", runtime.driver},
              {"runtime", runtime.kind + " " + runtime.runtime},
              {"collectives", runtime.collectives}});
  return all;
}

bool FitLoop::is_done() const {
  if (!stopped_by_.empty()) return true;
  if (options_.max_epochs > 0 && state_.epoch >= options_.max_epochs) return true;
  return options_.max_steps > 0 && state_.step >= options_.max_steps;
}

bool FitLoop::is_epoch_over() const {
  if (epoch_samples_ < train_->source().size() && !train_->options().drop_last) return state_.place >= epoch_samples_;
  const auto left = train_->source().size() - state_.place;
  if (!train_->options().drop_last) return left == 0;
  return left < train_->options().global_batch || state_.place >= epoch_samples_;
}

void FitLoop::train_epoch() {
  const auto global_batch = train_->options().global_batch * options_.step.accumulate;
  tell(EpochStarted{.epoch = state_.epoch,
                    .steps = batches_in_epoch(epoch_samples_, global_batch),
                    .first_step = batches_in_epoch(state_.place, global_batch)});
  module_.train();
  ahead_.reset();
  train_->seek(state_.epoch, state_.place);
  // The loader goes on with the next epoch once its end was heard, so an epoch that is over must not be asked again.
  while (!is_done() && !is_epoch_over()) {
    const auto work = next_work();
    LOCKSTEP_ASSERT(!work.batches.empty());
    try {
      step(work);
    } catch (const c10::OutOfMemoryError&) {
      explain_shortage(work);
    }
    read_ahead();
    after_step(work);
  }
}

void FitLoop::end_epoch() {
  await_device();
  settle_loss();
  if (graph_plan_) graph_plan_->interrupt();
  state_.metrics["train_loss"] = mean_over_ranks(state_.loss_sum, state_.loss_samples);
  require_finite(state_.metrics["train_loss"]);
  const auto logged = module_.metrics().over_ranks(group_);
  for (const auto& [name, value] : logged) state_.metrics[name] = value;
  if (state_.numbers.erase(kEpochWasHeard) == 0) {
    for (auto* extension : participants_.extensions) extension->after_epoch(state_);
  }
  const bool is_last = state_.epoch + 1 == options_.max_epochs;
  is_best_ = false;
  // A stop in mid-validation leaves the epoch open: the resumed run validates again.
  if ((is_due_at_epochs_end(options_.data.validate_every) || is_last) && !validate(logged)) {
    state_.numbers[kEpochWasHeard] = 1;
    return;
  }
  const bool saves = is_due_at_epochs_end(options_.snapshot.every_epochs) || is_best_;
  ++state_.epoch;
  state_.place = 0;
  state_.loss_sum = 0;
  state_.loss_samples = 0;
  set_loss();
  module_.metrics().clear();
  if (saves) save();
}

FitResult FitLoop::finish() {
  if (stopped_by_.empty()) {
    const bool all_epochs = options_.max_epochs > 0 && state_.epoch >= options_.max_epochs;
    stopped_by_ = all_epochs ? "max_epochs" : "max_steps";
  }
  await_device();
  if (state_.place > 0 && !is_epoch_over()) {
    settle_loss();
    state_.metrics["train_loss"] = mean_over_ranks(state_.loss_sum, state_.loss_samples);
  }
  refresh_statistics();
  save();
  parallel_->broadcast_buffers();
  FitResult result;
  result.state = state_of_all_ranks();
  result.steps_now = state_.step - first_step_;
  result.weights_digest = weights_digest(module_);
  require_same_text(group_, ErrorKind::kBug, "the trained model", result.weights_digest,
                    "ranks have drifted apart; please report it with the recipe");
  result.found = found_;
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
                .device_peak_bytes = device_peak_bytes(group_.device()),
                .facts = found_,
                .metrics = state_.metrics});
  return result;
}

TrainerOptions fast_dev_run(TrainerOptions options) {
  options.max_epochs = 1;
  options.max_steps = 0;
  options.log_every = 1;
  options.data.train_batches = 1;
  options.data.validation_batches = 1;
  options.snapshot = {};
  options.snapshot.every_epochs = 0;
  return options;
}

FitResult Trainer::fit(Module& module, DataModule& data) {
  auto group = join({.accelerator = options_.step.device.accelerator});
  return fit(module, data, group);
}

FitResult Trainer::fit(Module& module, DataModule& data, Group& group) {
  if (std::exchange(has_fitted_, true) && !options_.snapshot.folder.empty()) {
    throw Error(ErrorKind::kUsage,
                options_.snapshot.folder.string() + " holds the snapshots of this Trainer's first fit()",
                "make another Trainer, with a snapshot folder of its own or with resume_from");
  }
  FitResult result;
  std::unique_ptr<RunLock> lock;
  leave_on_failure(group, [&] {
    if (const auto& folder = options_.snapshot.folder; !folder.empty()) {
      const auto self = ProcessIdentity::of_process(Environment::of_process());
      on_rank_zero(group, [&] { lock = lock_snapshots(folder, self); });
    }
    result = naming_device_failures(group.device(), [&] {
      return FitLoop(options_, {listeners_, extensions_}, module, data, group).run();
    });
  });
  return result;
}

}  // namespace lockstep
