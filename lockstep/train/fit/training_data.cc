// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/fit/training_data.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/data/source/sources.h"

namespace lockstep {
namespace {

// Returns the number of samples that a limit allows. A limit below 1 is a share of the batches, but at least one batch.
// From 1 on, it is a number of batches. 0 means all.
std::int64_t limited_samples(double limit, std::int64_t global_batch, std::int64_t samples) {
  if (limit <= 0) return samples;
  const auto batches = batches_in_epoch(samples, global_batch);
  const auto wanted = limit < 1 ? std::max<std::int64_t>(1, std::llround(limit * static_cast<double>(batches)))
                                : static_cast<std::int64_t>(limit);
  return std::min(samples, wanted * global_batch);
}

// If a user's loader ignores the shard, each rank would train on the whole batch, and weigh it as a part.
void require_shard(const Loader& loader, Shard shard, const std::string& maker) {
  const auto& has = loader.options().shard;
  if (has.index == shard.index && has.count == shard.count) return;
  throw Error(ErrorKind::kUsage,
              maker + " made a loader of shard " + std::to_string(has.index) + " of " + std::to_string(has.count) +
                  ", want " + std::to_string(shard.index) + " of " + std::to_string(shard.count),
              "hand the shard that it was given on to the loader: LoaderOptions{.shard = shard}");
}

// The ranks' parts make one global batch only if all loaders have the same order and cut it in the same way.
std::string to_text(const Loader* loader) {
  if (loader == nullptr) return "none";
  const auto& options = loader->options();
  return std::to_string(loader->source().size()) + " samples\nglobal_batch " + std::to_string(options.global_batch) +
         "\nseed " + std::to_string(options.seed) + "\nshuffle " + std::to_string(int{options.shuffle}) +
         "\ndrop_last " + std::to_string(int{options.drop_last});
}

}  // namespace

TrainingData::TrainingData(DataModule& data, const TrainerOptions& options, Group& group)
    : accumulate_(options.step.accumulate) {
  on_rank_zero(group, [&] { data.prepare_data(); });
  data.setup();
  const Shard shard{group.rank(), group.world()};
  const auto& limits = options.data;
  train_ = data.train_loader(shard);
  if (const auto schema = data.schema()) schema_ = to_json(*schema);
  if (limits.overfit_batches > 0) {
    const auto samples = limits.overfit_batches * train_->options().global_batch;
    train_ = first_samples(*train_, samples);
    if (limits.validate_every > 0) validation_ = first_samples(*train_, samples);
  } else if (limits.validate_every > 0) {
    validation_ = data.validation_loader(shard);
  }
  on_every_rank(group, [&] {
    require_shard(*train_, shard, "train_loader()");
    if (validation_) require_shard(*validation_, shard, "validation_loader()");
  });
  const std::string hint = "make the same loader on every rank, with the shard alone different";
  require_same_text(group, ErrorKind::kUsage, "the loader of train_loader()", to_text(train_.get()), hint);
  require_same_text(group, ErrorKind::kUsage, "the loader of validation_loader()", to_text(validation_.get()), hint);
  const auto global_batch = train_->options().global_batch;
  const auto size = train_->source().size();
  epoch_samples_ = limited_samples(limits.train_batches, global_batch,
                                   train_->options().drop_last ? size - size % global_batch : size);
  if (!validation_) return;
  const auto unit = limits.validation_batch > 0 ? limits.validation_batch : validation_->options().global_batch;
  const auto all = validation_->source().size();
  validation_samples_ = limited_samples(limits.validation_batches, unit, all);
  // A batch of the loader may extend beyond the limit. The metrics would then depend on the number of ranks, so a
  // loader of exactly these samples is made.
  if (validation_samples_ < all) validation_ = first_samples(*validation_, validation_samples_);
}

std::int64_t TrainingData::steps_for(std::int64_t samples) const { return batches_in_epoch(samples, step_samples()); }

bool TrainingData::is_epoch_over(std::int64_t place) const {
  const auto& options = train_->options();
  const auto size = train_->source().size();
  if (!options.drop_last) return place >= epoch_samples_ || place >= size;
  return size - place < options.global_batch || place >= epoch_samples_;
}

std::unique_ptr<Loader> first_samples(const Loader& loader, std::int64_t samples) {
  auto options = loader.options();
  options.shuffle = false;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(std::min(loader.source().size(), samples)));
  std::iota(ids.begin(), ids.end(), 0);
  return std::make_unique<Loader>(subset(loader.shared_source(), std::move(ids)), options);
}

TrainingPlan training_plan(const TrainerOptions& options, const TrainingData& data) {
  TrainingPlan plan;
  plan.epochs = options.max_epochs;
  plan.steps_per_epoch = data.steps_for(data.epoch_samples());
  plan.batches_per_step = options.step.accumulate;
  plan.steps = options.max_steps > 0 ? options.max_steps : options.max_epochs * plan.steps_per_epoch;
  return plan;
}

}  // namespace lockstep
