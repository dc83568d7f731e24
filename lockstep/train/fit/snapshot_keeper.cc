// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/snapshot_keeper.h"

#include <torch/torch.h>

#include <array>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/snapshot/optimizer_state.h"

namespace lockstep {
namespace {

constexpr const char* kCompression = "compression";
constexpr const char* kSinceLogged = "since_logged";

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

SnapshotKeeper::SnapshotKeeper(TrainedModel& model, const TrainingData& data, LossCounter& losses,
                               const Participants& participants, const SnapshotOptions& options)
    : model_(model), data_(data), losses_(losses), participants_(participants), options_(options) {
  if (options.folder.empty()) return;
  require_known_kind(model.optimizer());
  if (!model.group().is_main()) return;
  writer_.emplace(options.folder);
  model.wait_before_update([this] { writer_->wait_for_copy(); });
}

TrainingState SnapshotKeeper::begin(const DataParallelOptions& parallel) {
  TrainingState state;
  auto connection = parallel;
  state.seed = data_.train().options().seed;
  if (options_.resume_from) {
    state = restore(*options_.resume_from);
    const auto world = model_.group().world();
    if (state.world == world && world > 1) connection.layout = state.bucket_layout;
  }
  state.data_size = data_.train().source().size();
  model_.connect(connection);
  if (options_.resume_from && parallel.compression.kind != Compression::kNone) {
    model_.parallel().restore_compression(of_owner(extension_tensors(*options_.resume_from), kCompression));
  }
  restore_sums(state);
  return state;
}

TrainingState SnapshotKeeper::restore(const std::filesystem::path& snapshot) {
  auto state = restore_snapshot(snapshot, model_.module(), model_.optimizer());
  const auto& loader = data_.train();
  if (state.seed != loader.options().seed) {
    throw Error(ErrorKind::kRecipe,
                snapshot.string() + " was trained with seed " + std::to_string(state.seed) + ", this run has " +
                    std::to_string(loader.options().seed) + ": the order of samples would be another",
                "set the same seed, or start anew with --resume none");
  }
  if (state.data_size != loader.source().size()) {
    throw Error(ErrorKind::kData,
                snapshot.string() + " was trained on " + std::to_string(state.data_size) +
                    " samples, the data set has " + std::to_string(loader.source().size()),
                "resume with the same data set, or start anew with --resume none");
  }
  saved_ = {state.step, state.epoch};
  restore_participants(
      state, participants_.extensions().empty() ? std::map<std::string, at::Tensor>{} : extension_tensors(snapshot));
  return state;
}

void SnapshotKeeper::restore_participants(const TrainingState& state,
                                          const std::map<std::string, at::Tensor>& tensors) {
  model_.scheduler().restore(of_owner(state.numbers, "scheduler"));
  if (auto* scaler = model_.scaler()) scaler->restore(of_owner(state.numbers, "scaler"));
  for (auto* listener : participants_.listeners()) listener->restore(of_owner(state.numbers, listener->name()));
  for (auto* extension : participants_.extensions()) extension->restore(of_owner(tensors, extension->name()));
}

void SnapshotKeeper::restore_sums(TrainingState& state) {
  if (model_.group().is_main()) {
    LossSums sums{.epoch = {state.loss_sum, state.loss_samples}, .since_logged = {}};
    const auto since_logged = of_owner(state.numbers, kSinceLogged);
    if (since_logged.contains("loss_sum")) {
      sums.since_logged = {since_logged.at("loss_sum"), static_cast<std::int64_t>(since_logged.at("samples"))};
    }
    losses_.restore(sums);
  } else {
    losses_.restore({});
    state.digest = {};
    state.logged.clear();
  }
  state.loss_sum = 0;
  state.loss_samples = 0;
  model_.module().metrics().restore(std::exchange(state.logged, {}));
}

// Digests are sums modulo 2^64, so int64's wrap-around serves.
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
  state.bucket_layout = model_.parallel().layout();
  state.world = group.world();
  add_numbers(state.numbers, "scheduler", model_.scheduler().state());
  if (auto* scaler = model_.scaler()) add_numbers(state.numbers, "scaler", scaler->state());
  for (const auto* listener : participants_.listeners()) {
    add_numbers(state.numbers, listener->name(), listener->state());
  }
  return state;
}

std::vector<SavedTensor> SnapshotKeeper::tensors_besides() const {
  std::vector<SavedTensor> out;
  for (const auto& [name, tensor] : model_.parallel().compression_state()) {
    // Backward passes change it, not only updates.
    out.push_back({std::string(kCompression) + "." + name, tensor});
  }
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
  auto content = shared_content_of(model_.module(), model_.optimizer(), std::move(state), tensors_besides());
  content.data = data_.schema();
  return content;
}

void SnapshotKeeper::prepare() {
  if (writer_) writer_->prepare(content({}));
}

void SnapshotKeeper::wait_for_copy() {
  if (writer_) writer_->wait_for_copy();
}

void SnapshotKeeper::save(const TrainingState& own, bool is_best) {
  const auto start = Clock::now();
  model_.parallel().broadcast_buffers();
  if (auto* update = model_.device_update()) update->settle();
  const auto state = all_ranks(own);
  if (writer_) writer_->begin(content(state), {.keep = options_.keep, .is_best = is_best});
  saved_ = {state.step, state.epoch};
  blocked_s_ = seconds_between(start, Clock::now());
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
      Log(2, "lockstep: ").warning("no snapshot of step " + std::to_string(end->step) + " was written: " +
                                   std::string(error.fact()) + "; the next save tries again");
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
