// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/data/source/data_sets.h"
#include "lockstep/recipe/recipe.h"
#include "lockstep/train/fit/trainer.h"

namespace lockstep {

/// Returns the number of samples that trainer.limit_val_batches counts as one batch, the same for any number of ranks.
std::int64_t validation_unit(const Recipe& recipe);

/// The data that a trained model is evaluated on.
struct ModelRequest {
  ModelPart part{};
  bool needs_labels = true;
  bool can_draw = true;  ///< False if data.split is not for these data.
};

/// The data sets of a recipe's table [data].
class RecipeData : public DataModule {
 public:
  /// `recipe` must outlive this object. The data are read for the device of the rank in `group`.
  RecipeData(const Recipe& recipe, const Group& group);

  /// Opens the data at the first call. Later calls do nothing.
  /// Throws: Error(kData), Error(kIo) as the sources do; Error(kRecipe) if settings do not fit the data.
  void setup() override;
  std::unique_ptr<Loader> train_loader(Shard shard) override;
  std::unique_ptr<Loader> validation_loader(Shard shard) override;
  std::optional<DataSchema> schema() const override { return sets_.schema; }

  /// Opens one part for a model with the classes, columns and input of `training`, instead of setup().
  /// Throws: as open_for_model().
  void setup_for_model(const DataSchema& training, const ModelRequest& request);
  /// Returns the samples of setup_for_model(), in order.
  std::unique_ptr<Loader> model_loader(Shard shard) const;

  const DataSets& sets() const { return sets_; }

 private:
  DataSettings settings() const;
  int workers_for(const SampleSource& source) const;
  LoaderOptions loader_options(Shard shard, const SampleSource& source) const;

  const Recipe& recipe_;
  Shard shard_;
  int decoders_;  ///< Threads that decode. -1 for the loader's own choice.
  DataSets sets_;
};

}  // namespace lockstep
