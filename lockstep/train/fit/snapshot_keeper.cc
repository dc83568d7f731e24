// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/snapshot_keeper.h"

#include <fcntl.h>
#include <torch/torch.h>

#include <array>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/log.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/format/snapshot/snapshot_names.h"
#include "lockstep/snapshot/optimizer_state.h"
#include "lockstep/train/shared_restore.h"

namespace lockstep {
namespace {

constexpr const char* kCompression = "compression";
constexpr const char* kSinceLogged = "since_logged";
constexpr const char* kStepSamples = "run.step_samples";
// How often a training may roll back to one snapshot. After that it takes the snapshot before.
constexpr int kMostRollbacks = 3;

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

// Gathers all ranks' sums by an all-reduce, each in its own row. A name of `all` that this rank lacks is zero here.
std::vector<RankSums> sums_of_ranks(Group& group, const LossSums& losses, const MetricSums& own,
                                    const MetricSums& all) {
  const auto columns = static_cast<std::int64_t>(2 + all.size());
  auto totals = at::zeros({group.world(), columns}, at::kDouble);
  auto samples = at::zeros({group.world(), columns}, at::kLong);
  std::int64_t column = 0;
  const auto write = [&](double total, std::int64_t count) {
    totals.accessor<double, 2>()[group.rank()][column] = total;
    samples.accessor<std::int64_t, 2>()[group.rank()][column++] = count;
  };
  write(losses.epoch.total, losses.epoch.samples);
  write(losses.since_logged.total, losses.since_logged.samples);
  for (const auto& [name, sum] : all) {
    const auto it = own.find(name);
    const auto mine = it == own.end() ? MetricSum{} : it->second;
    write(mine.total, mine.samples);
  }
  group.all_reduce_sum(totals);
  group.all_reduce_sum(samples);
  std::vector<RankSums> ranks;
  for (std::int64_t rank = 0; rank < group.world(); ++rank) {
    column = 0;
    const auto read = [&]() -> MetricSum {
      const MetricSum sum{totals.accessor<double, 2>()[rank][column],
                          samples.accessor<std::int64_t, 2>()[rank][column]};
      ++column;
      return sum;
    };
    auto& each = ranks.emplace_back();
    each.loss = read();
    each.since_logged = read();
    for (const auto& [name, sum] : all) each.logged[name] = read();
  }
  return ranks;
}

}  // namespace

SnapshotKeeper::SnapshotKeeper(TrainedModel& model, const TrainingData& data, LossCounter& losses,
                               const Participants& participants, const SnapshotOptions& options)
    : model_(model), data_(data), losses_(losses), participants_(participants), options_(options) {
  if (options.folder.empty()) return;
  require_known_kind(model.optimizer());
  if (!model.group().is_main()) return;
  writer_.emplace(options.folder);
  if (options.in_memory > 0 && options.memory >= 0) {
    holder_.emplace(options.folder, FileDescriptor(::fcntl(options.memory, F_DUPFD_CLOEXEC, 0)));
  }
  model.wait_before_update([this] { wait_for_copy(); });
}

TrainingState SnapshotKeeper::begin(const DataParallelOptions& parallel) {
  TrainingState state;
  auto connection = parallel;
  state.seed = data_.train().options().seed;
  if (options_.resume_from) {
    state = restore(*options_.resume_from);
    if (state.world == model_.group().world() && state.world > 1) connection.layout = state.bucket_layout;
  }
  state.data_size = data_.train().source().size();
  state.numbers[kStepSamples] = static_cast<double>(data_.step_samples());
  model_.connect(connection);
  compresses_ = parallel.compression.kind != Compression::kNone;
  if (options_.resume_from) restore_compression(*options_.resume_from);
  restore_sums(state);
  if (options_.in_memory > 0) is_held_ = model_.group().broadcast_text(holder_ ? "held" : "") == "held";
  return state;
}

TrainingState SnapshotKeeper::restore(const std::filesystem::path& snapshot) {
  auto state = restore_shared(snapshot, model_.module(), model_.optimizer(), model_.group());
  const auto& loader = data_.train();
  if (state.seed != loader.options().seed) {
    throw Error(ErrorKind::kRecipe,
                snapshot.string() + " was trained with seed " + std::to_string(state.seed) + ", this run has " +
                    std::to_string(loader.options().seed) + ": the order of samples would be another",
                "set the same seed, or start from scratch with --resume none");
  }
  if (state.data_size != loader.source().size()) {
    throw Error(ErrorKind::kData,
                snapshot.string() + " was trained on " + std::to_string(state.data_size) +
                    " samples, the data set has " + std::to_string(loader.source().size()),
                "resume with the same data set, or start from scratch with --resume none");
  }
  require_same_steps(state, snapshot);
  saved_ = {state.step, state.epoch};
  restore_participants(state);
  restore_extensions(snapshot);
  return state;
}

// If a schedule counts steps, a step with another number of samples would be another position in the training.
void SnapshotKeeper::require_same_steps(const TrainingState& state, const std::filesystem::path& snapshot) const {
  const auto it = state.numbers.find(kStepSamples);
  if (it == state.numbers.end() || !model_.scheduler().goes_by_steps(state.step)) return;
  const auto wanted = static_cast<std::int64_t>(it->second);
  const auto found = data_.step_samples();
  if (found == wanted) return;
  const auto accumulate = found / data_.train().options().global_batch;
  const auto setting = wanted % accumulate == 0 ? "data.global_batch = " + std::to_string(wanted / accumulate)
                                                : "data.global_batch and trainer.accumulate so that their product is " +
                                                      std::to_string(wanted);
  throw Error(ErrorKind::kRecipe,
              "a step has " + std::to_string(found) + " samples, and in " + snapshot.string() + " it had " +
                  std::to_string(wanted) + ": the schedule goes by steps, and its rates would no longer fit",
              "set " + setting +
                  ", which holds on any number of ranks; or let the schedule go by epochs, with scheduler.interval = "
                  "\"epoch\"; or start from scratch with --resume none");
}

void SnapshotKeeper::restore_participants(const TrainingState& state) {
  model_.scheduler().restore(of_owner(state.numbers, "scheduler"));
  if (auto* scaler = model_.scaler()) scaler->restore(of_owner(state.numbers, "scaler"));
  restore_listeners(state.numbers);
}

void SnapshotKeeper::restore_listeners(const Numbers& numbers) {
  for (auto* listener : participants_.listeners()) listener->restore(of_owner(numbers, listener->name()));
}

void SnapshotKeeper::restore_extensions(const std::map<std::string, at::Tensor>& tensors) {
  for (auto* extension : participants_.extensions()) extension->restore(of_owner(tensors, extension->name()));
}

void SnapshotKeeper::restore_extensions(const std::filesystem::path& snapshot) {
  std::map<std::string, at::Tensor> tensors;
  const auto is_compression = [](const std::string& name) { return name.starts_with(std::string(kCompression) + "."); };
  if (!participants_.extensions().empty()) {
    for_each_shared_tensor(
        snapshot, model_.group(), [&](const auto& name) { return !is_compression(name); },
        [&](const auto& name, const auto& tensor) { tensors[name] = tensor; });
  }
  restore_extensions(tensors);
}

void SnapshotKeeper::restore_compression(const std::filesystem::path& snapshot) {
  if (!compresses_) return;
  const auto owner = std::string(kCompression) + ".";
  for_each_shared_tensor(
      snapshot, model_.group(), [&](const auto& name) { return name.starts_with(owner); },
      [&](const auto& name, const auto& tensor) {
        model_.parallel().restore_compression({{name.substr(owner.size()), tensor}});
      });
}

void SnapshotKeeper::restore_sums(TrainingState& state) {
  const auto& group = model_.group();
  RankSums own;
  if (std::ssize(state.rank_sums) == group.world()) {
    own = state.rank_sums[static_cast<std::size_t>(group.rank())];
  } else if (group.is_main()) {
    const auto since_logged = of_owner(state.numbers, kSinceLogged);
    if (since_logged.contains("loss_sum")) {
      own.since_logged = {since_logged.at("loss_sum"), static_cast<std::int64_t>(since_logged.at("samples"))};
    }
    own.loss = {state.loss_sum, state.loss_samples};
    own.logged = state.logged;
  }
  losses_.restore({.epoch = {own.loss.total, own.loss.samples},
                   .since_logged = {own.since_logged.total, own.since_logged.samples}});
  model_.module().metrics().restore(own.logged);
  if (!group.is_main()) state.digest = {};
  state.loss_sum = 0;
  state.loss_samples = 0;
  state.logged.clear();
  state.rank_sums.clear();
}

std::optional<std::string> SnapshotKeeper::newest_for_rollback() const {
  const auto found = newest_whole_snapshot(options_.folder, {}, [&](const std::filesystem::path& path) {
    const auto name = parsed_snapshot_name(path.filename().string());
    if (name && rollbacks_ == kMostRollbacks && name->step >= *rolled_back_to_)
      return std::optional<std::string>("it failed");
    return state_fault(path);
  });
  return found ? std::optional(found->path.string()) : std::nullopt;
}

bool SnapshotKeeper::roll_back() {
  auto& group = model_.group();
  std::string newest;
  on_rank_zero(group, [&] { newest = newest_for_rollback().value_or(""); });
  const std::filesystem::path snapshot = group.broadcast_text(newest);
  if (snapshot.empty() && rolled_back_to_) {
    throw Error(ErrorKind::kRecipe,
                "training went back to the weights of step " + std::to_string(*rolled_back_to_) + " " +
                    std::to_string(rollbacks_) + " times, and its gradients were not finite again each time",
                "lower optimizer.lr, clip gradients with trainer.clip_norm, or keep more snapshots with snapshot.keep");
  }
  if (snapshot.empty()) return false;
  wait_for_copy();
  model_.optimizer().state().clear();
  const auto state = restore_shared(snapshot, model_.module(), model_.optimizer(), group);
  share_weights(model_.module(), group);
  if (auto* update = model_.device_update()) update->forget();
  restore_extensions(snapshot);
  for (auto* extension : participants_.extensions()) extension->start(model_.module());
  restore_compression(snapshot);
  rollbacks_ = rolled_back_to_ == state.step ? rollbacks_ + 1 : 1;
  rolled_back_to_ = state.step;
  forget();
  if (group.is_main()) {
    Log(2, "lockstep: ")
        .warning("training goes back to the weights of step " + std::to_string(state.step) +
                 ", and goes on with the samples after those that failed");
  }
  return true;
}

// Digests are sums modulo 2^64, so the wrap-around of int64 gives the right sum.
TrainingState SnapshotKeeper::all_ranks(TrainingState state) const {
  auto& group = model_.group();
  const auto& sums = losses_.sums();
  std::array<std::int64_t, 4> counts = {static_cast<std::int64_t>(state.digest.sums[0]),
                                        static_cast<std::int64_t>(state.digest.sums[1]), sums.epoch.samples,
                                        sums.since_logged.samples};
  std::array<double, 2> losses = {sums.epoch.total, sums.since_logged.total};
  auto counts_tensor = at::from_blob(counts.data(), {4}, at::kLong);
  auto losses_tensor = at::from_blob(losses.data(), {2}, at::kDouble);
  group.all_reduce_sum(counts_tensor);
  group.all_reduce_sum(losses_tensor);
  if (stops_on_nonfinite_) losses_.require_finite(losses[0], state.step, state.epoch);
  for (std::size_t i = 0; i < 2; ++i) state.digest.sums[i] = static_cast<std::uint64_t>(counts[i]);
  state.loss_sum = losses[0];
  state.loss_samples = counts[2];
  add_numbers(state.numbers, kSinceLogged, {{"loss_sum", losses[1]}, {"samples", static_cast<double>(counts[3])}});
  state.logged = model_.module().metrics().sums_over_ranks(group);
  state.rank_sums = sums_of_ranks(group, sums, model_.module().metrics().sums(), state.logged);
  state.bucket_layout = model_.parallel().layout();
  state.world = group.world();
  add_numbers(state.numbers, "scheduler", model_.scheduler().state());
  if (auto* scaler = model_.scaler()) add_numbers(state.numbers, "scaler", scaler->state());
  for (const auto* listener : participants_.listeners()) {
    add_numbers(state.numbers, listener->name(), listener->state());
  }
  return state;
}

std::vector<SavedTensor> SnapshotKeeper::tensors_of_extensions() const {
  std::vector<SavedTensor> out;
  for (const auto* extension : participants_.extensions()) {
    for (const auto& each : extension->saved()) out.push_back({extension->name() + "." + each.name, each.tensor, true});
  }
  return out;
}

bool SnapshotKeeper::is_saved(const TrainingState& state) const {
  return options_.folder.empty() || saved_ == SavedAt{state.step, state.epoch};
}

bool SnapshotKeeper::is_echo(const TrainingState& state) const {
  return !model_.group().device().is_cpu() && saved_ && saved_->step + 1 == state.step;
}

SnapshotContent SnapshotKeeper::content(TrainingState state) const {
  auto content = shared_content_of(model_.module(), model_.optimizer(), std::move(state), tensors_of_extensions());
  content.data = data_.schema();
  return content;
}

void SnapshotKeeper::prepare() {
  if (options_.folder.empty()) return;
  on_rank_zero(model_.group(), [&] {
    writer_->prepare(content({}));
    if (holder_) holder_->prepare(content({}));
  });
}

void SnapshotKeeper::wait_for_copy() {
  if (writer_) writer_->wait_for_copy();
  if (holder_) holder_->wait_for_copy();
}

std::optional<SnapshotContent> SnapshotKeeper::gathered(const TrainingState& own) {
  model_.parallel().broadcast_buffers();
  if (auto* update = model_.device_update()) update->settle();
  auto state = all_ranks(own);
  // The compression's state has at most the model's size for each rank. Rank 0 has gathered it, so it is not copied.
  const auto compression = model_.parallel().compression_state();
  if (!writer_) return std::nullopt;
  auto all = content(std::move(state));
  for (const auto& [name, tensor] : compression) {
    all.extensions.push_back({std::string(kCompression) + "." + name, tensor});
  }
  return all;
}

void SnapshotKeeper::save(const TrainingState& own, bool is_best) {
  const auto start = Clock::now();
  if (auto all = gathered(own)) {
    writer_->begin(std::move(*all), {.keep = options_.keep, .keep_every = options_.keep_every, .is_best = is_best});
  }
  saved_ = {own.step, own.epoch};
  blocked_s_ = seconds_between(start, Clock::now());
}

void SnapshotKeeper::hold(const TrainingState& own) {
  auto all = gathered(own);
  if (!holder_) return;
  warn_of_failed_hold();
  holder_->begin(std::move(*all), {});
}

void SnapshotKeeper::warn_of_failed_hold() {
  const auto end = holder_->wait();
  if (!end || !end->error || std::exchange(warned_of_hold_, true)) return;
  try {
    std::rethrow_exception(end->error);
  } catch (const Error& error) {
    Log(2, "lockstep: ")
        .warning("the state of step " + std::to_string(end->step) + " is not held in memory: " + error.what());
  }
}

std::optional<SnapshotWritten> SnapshotKeeper::written() { return writer_ ? event_of(writer_->ended()) : std::nullopt; }

std::optional<SnapshotWritten> SnapshotKeeper::wait_for_earlier() {
  return writer_ ? event_of(writer_->wait()) : std::nullopt;
}

std::optional<SnapshotWritten> SnapshotKeeper::event_of(const std::optional<SaveEnd>& end) {
  if (!end) return std::nullopt;
  if (end->error) {
    try {
      std::rethrow_exception(end->error);
    } catch (const Error& error) {
      Log(2, "lockstep: ")
          .warning("no snapshot of step " + std::to_string(end->step) + " was written: " + std::string(error.fact()) +
                   "; the next save tries again");
    }
    return std::nullopt;
  }
  return SnapshotWritten{.step = end->step,
                         .epoch = end->epoch,
                         .path = end->written.path,
                         .bytes = end->written.bytes,
                         .seconds = blocked_s_ + end->waited_s};
}

std::optional<SnapshotWritten> SnapshotKeeper::settle(const TrainingState& state) {
  std::optional<SaveEnd> end;
  on_rank_zero(model_.group(), [&] {
    if (writer_) end = writer_->wait();
  });
  const bool failed = model_.group().broadcast_text(end && end->error ? "failed" : "") == "failed";
  auto event = event_of(end);
  if (!failed) return event;
  save(state, false);
  on_rank_zero(model_.group(), [&] {
    end = writer_->wait();
    if (end->error) std::rethrow_exception(end->error);
    event = event_of(end);
  });
  return event;
}

}  // namespace lockstep
