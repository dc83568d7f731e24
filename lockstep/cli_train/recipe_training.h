// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/data/source/data_sets.h"
#include "lockstep/recipe/recipe.h"
#include "lockstep/train/task/network_task.h"
#include "lockstep/train/trainer.h"

namespace lockstep {

std::uint64_t seed_of(const Recipe& recipe);

/// The data that a recipe's [data] names.
class RecipeData : public DataModule {
 public:
  /// `recipe` must outlive this object. The data are read for what `group`'s rank computes on.
  RecipeData(const Recipe& recipe, const Group& group);

  /// Opens the data once, however often it is called.
  /// Throws: Error(kData), Error(kIo) as the sources do; Error(kRecipe) where settings do not fit the data.
  void setup() override;
  std::unique_ptr<Loader> train_loader(Shard shard) override;
  std::unique_ptr<Loader> validation_loader(Shard shard) override;

  /// One part as validation reads it, in order: "train", "validation", or "test" for a set that has one.
  /// Throws: Error(kData) where there is no such part.
  std::unique_ptr<Loader> split_loader(Shard shard, const std::string& split);

  const DataSets& sets() const { return sets_; }

 private:
  LoaderOptions loader_options(Shard shard, const SampleSource& source) const;
  std::unique_ptr<Loader> ordered_loader(Shard shard, std::shared_ptr<const SampleSource> source) const;

  const Recipe& recipe_;
  int decoders_;  ///< Threads for what has to be decoded; -1 for the loader's own choice.
  DataSets sets_;
};

/// The model of [model] with what is learnt from it, its initial weights drawn by [trainer] seed or read from
/// `model.weights`; `notes`, where given, are told which were taken from there and which were not. It is laid out for
/// `device`, and still on the CPU.
std::unique_ptr<NetworkTask> task_of(const Recipe& recipe, const DataSets& sets, const RankDevice& device,
                                     std::vector<std::string>* notes = nullptr);

/// What [trainer], [scheduler] and [snapshot] say. Snapshots go to `snapshots`.
TrainerOptions trainer_options_of(const Recipe& recipe, const std::filesystem::path& snapshots);

/// What [scheduler] says, for a training of this length.
ScheduleOptions schedule_of(const Recipe& recipe, const TrainingPlan& plan);

}  // namespace lockstep
