// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/recipe/recipe.h"
#include "lockstep/train/classifier.h"
#include "lockstep/train/trainer.h"

namespace lockstep {

/// The data that a recipe's [data] names.
class RecipeData : public DataModule {
 public:
  /// `recipe` must outlive this object.
  explicit RecipeData(const Recipe& recipe) : recipe_(recipe) {}

  /// Opens the data once, however often it is called.
  /// Throws: Error(kData), Error(kIo) as the sources do; Error(kRecipe) where settings do not fit the data.
  void setup() override;
  std::unique_ptr<Loader> train_loader(Shard shard) override;
  std::unique_ptr<Loader> validation_loader(Shard shard) override;

  const SampleSource& train_source() const { return *train_; }

 private:
  LoaderOptions loader_options(Shard shard, const SampleSource& source) const;

  const Recipe& recipe_;
  std::shared_ptr<const SampleSource> train_;
  std::shared_ptr<const SampleSource> validation_;
};

/// The model of [model], with initial weights drawn by [trainer] seed or read from `model.weights`.
std::unique_ptr<Classifier> module_of(const Recipe& recipe, const SampleSource& source);

/// What [trainer] and [snapshot] say. Snapshots go to `snapshots`.
TrainerOptions trainer_options_of(const Recipe& recipe, const std::filesystem::path& snapshots);

}  // namespace lockstep
