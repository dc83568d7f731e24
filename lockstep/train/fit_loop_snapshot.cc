// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <array>

#include "lockstep/base/error.h"
#include "lockstep/train/fit_loop.h"

namespace lockstep {
namespace {

constexpr const char* kCompression = "compression";
constexpr const char* kSinceLogged = "since_logged";
constexpr const char* kSeconds = "run.seconds";

using Numbers = std::map<std::string, double>;

void add_numbers(Numbers& to, const std::string& owner, const Numbers& numbers) {
  for (const auto& [name, value] : numbers) to[owner + "." + name] = value;
}

template <typename Map>
Map of_owner(const Map& all, const std::string& owner) {
  Map out;
  for (const auto& [name, value] : all) {
    if (name.starts_with(owner + ".")) out.emplace(name.substr(owner.size() + 1), value);
  }
  return out;
}

}  // namespace

// Takes the snapshot's state, if the run goes on from one, and returns how gradients are to be averaged from there.
DataParallelOptions FitLoop::resume() {
  auto parallel = options_.step.parallel;
  state_.seed = train_->options().seed;
  if (!options_.snapshot.resume_from) return parallel;
  const auto& from = *options_.snapshot.resume_from;
  state_ = restore_snapshot(from, module_, *optimizer_);
  if (state_.seed != train_->options().seed) {
    throw Error(ErrorKind::kRecipe,
                from.string() + " was trained with seed " + std::to_string(state_.seed) + ", this run has " +
                    std::to_string(train_->options().seed) + ": the order of samples would be another",
                "set the same seed, or start anew with --resume none");
  }
  if (state_.data_size != train_->source().size()) {
    throw Error(ErrorKind::kData,
                from.string() + " was trained on " + std::to_string(state_.data_size) + " samples, the data set has " +
                    std::to_string(train_->source().size()),
                "resume with the same data set, or start anew with --resume none");
  }
  if (state_.world == group_.world() && group_.world() > 1) parallel.layout = state_.bucket_layout;
  saved_at_ = {state_.step, state_.epoch};
  restore_participants(from);
  return parallel;
}

void FitLoop::restore_participants(const std::filesystem::path& snapshot) {
  const auto since_logged = of_owner(state_.numbers, kSinceLogged);
  if (group_.is_main() && since_logged.contains("loss_sum")) {
    logged_loss_sum_ = since_logged.at("loss_sum");
    logged_loss_samples_ = static_cast<std::int64_t>(since_logged.at("samples"));
  }
  if (const auto it = state_.numbers.find(kSeconds); it != state_.numbers.end()) seconds_before_ = it->second;
  scheduler_->restore(of_owner(state_.numbers, "scheduler"));
  if (scaler_) scaler_->restore(of_owner(state_.numbers, "scaler"));
  for (auto* listener : participants_.listeners) listener->restore(of_owner(state_.numbers, listener->name()));
  if (participants_.extensions.empty()) return;
  const auto tensors = extension_tensors(snapshot);
  for (auto* extension : participants_.extensions) extension->restore(of_owner(tensors, extension->name()));
}

// This rank's part of the sums becomes that of all ranks. Digests are sums modulo 2^64, so int64's wrap-around serves.
TrainingState FitLoop::state_of_all_ranks() {
  settle_loss();
  auto state = state_;
  std::array<std::int64_t, 4> counts = {static_cast<std::int64_t>(state.digest.sums[0]),
                                        static_cast<std::int64_t>(state.digest.sums[1]), state.loss_samples,
                                        logged_loss_samples_};
  std::array<double, 2> losses = {state.loss_sum, logged_loss_sum_};
  auto counts_tensor = at::from_blob(counts.data(), {4}, at::kLong);
  auto losses_tensor = at::from_blob(losses.data(), {2}, at::kDouble);
  group_.all_reduce_sum(counts_tensor);
  group_.all_reduce_sum(losses_tensor);
  require_finite(losses[0]);
  state.loss_sum = losses[0];
  add_numbers(state.numbers, kSinceLogged, {{"loss_sum", losses[1]}, {"samples", static_cast<double>(counts[3])}});
  for (std::size_t i = 0; i < 2; ++i) state.digest.sums[i] = static_cast<std::uint64_t>(counts[i]);
  state.loss_samples = counts[2];
  state.logged = module_.metrics().sums_over_ranks(group_);
  state.bucket_layout = parallel_->layout();
  state.world = group_.world();
  if (options_.max_time.count() > 0) state.numbers[kSeconds] = seconds_of_run();
  add_numbers(state.numbers, "scheduler", scheduler_->state());
  if (scaler_) add_numbers(state.numbers, "scaler", scaler_->state());
  for (const auto* listener : participants_.listeners) add_numbers(state.numbers, listener->name(), listener->state());
  return state;
}

void FitLoop::restore_compression() {
  const auto& from = options_.snapshot.resume_from;
  if (!from || options_.step.parallel.compression.kind == Compression::kNone) return;
  parallel_->restore_compression(of_owner(extension_tensors(*from), kCompression));
}

std::vector<SavedTensor> FitLoop::tensors_besides() {
  std::vector<SavedTensor> out;
  for (const auto& [name, tensor] : parallel_->compression_state()) {
    out.push_back({std::string(kCompression) + "." + name, tensor});
  }
  for (const auto* extension : participants_.extensions) {
    for (const auto& each : extension->saved()) out.push_back({extension->name() + "." + each.name, each.tensor});
  }
  return out;
}

void FitLoop::save() {
  const auto& options = options_.snapshot;
  const SavedAt now{state_.step, state_.epoch};
  if (options.folder.empty() || saved_at_ == now) return;
  await_device();
  refresh_statistics();
  const auto start = Clock::now();
  if (graph_plan_) graph_plan_->interrupt();
  parallel_->broadcast_buffers();
  if (device_update_ != nullptr) device_update_->settle();
  const auto state = state_of_all_ranks();
  SnapshotWritten event{.step = state.step, .epoch = state.epoch};
  const auto besides = tensors_besides();
  on_rank_zero(group_, [&] {
    auto content = content_of(module_, *optimizer_, state, besides);
    content.data = data_schema_;
    const auto written = write_snapshot(options.folder, content, {.keep = options.keep, .is_best = is_best_});
    event.path = written.path;
    event.bytes = written.bytes;
  });
  is_best_ = false;
  saved_at_ = now;
  last_step_ = last_save_ = Clock::now();
  event.seconds = seconds_between(start, last_save_);
  if (group_.is_main()) tell(event);
}

}  // namespace lockstep
