// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/recipe_data.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/cli_data/recipe_settings.h"
#include "lockstep/cli_train/rank_setup.h"
#include "lockstep/cli_train/recipe_training.h"
#include "lockstep/data/source/sources.h"
#include "lockstep/data/source/synthetic_source.h"

namespace lockstep {
namespace {

// Validation batches hold no gradients, so they may be larger than those of training, and fewer of them cost less. How
// much larger depends on the memory of a sample, which the training batch indicates.
constexpr std::int64_t kValidationBatch = 256;
constexpr std::int64_t kTimesTrainingBatch = 4;

// If a GPU computes, this rank's cores are free to decode samples. One core is left for the training loop, which also
// decodes while it waits.
int decoders_of(const Group& group) {
  constexpr int kMost = 16;
  if (group.device().is_cpu()) return -1;
  return std::clamp(own_cores(group.placement()).hardware_threads - 1, 2, kMost);
}

DataSets synthetic_sets(const Recipe& recipe) {
  DataSets sets;
  sets.train = synthetic_source({.samples = recipe.integer("data.samples"),
                                 .classes = recipe.integer("data.classes"),
                                 .shape = recipe.integers("data.shape"),
                                 .seed = seed_of(recipe)});
  sets.schema = {.fields = sets.train->fields(), .classes = sets.train->classes(), .class_names = {}, .columns = {}};
  if (!recipe.has("data.split")) return sets;
  auto split = drawn_split(sets.train->size(), recipe.real("data.split"), seed_of(recipe));
  sets.validation = subset(sets.train, std::move(split.validation));
  sets.train = subset(sets.train, std::move(split.train));
  return sets;
}

/// Returns the global batch for evaluation, for data that are trained on in batches of `global_batch`.
std::int64_t validation_batch(const Recipe& recipe, std::int64_t global_batch, Shard shard) {
  if (recipe.has("data.eval_batch")) return recipe.integer("data.eval_batch") * shard.count;
  return std::max(global_batch, std::min(kTimesTrainingBatch * global_batch, kValidationBatch * shard.count));
}

}  // namespace

std::uint64_t seed_of(const Recipe& recipe) { return static_cast<std::uint64_t>(recipe.integer("trainer.seed")); }

std::int64_t validation_unit(const Recipe& recipe) {
  return recipe.has("data.eval_batch") ? recipe.integer("data.eval_batch") : kValidationBatch;
}

RecipeData::RecipeData(const Recipe& recipe, const Group& group)
    : recipe_(recipe), shard_{group.rank(), group.world()}, decoders_(decoders_of(group)) {}

DataSettings RecipeData::settings() const {
  auto settings = data_settings_of(recipe_);
  settings.python.rank = shard_.index;
  settings.python.world = shard_.count;
  return settings;
}

void RecipeData::setup() {
  if (sets_.train) return;
  sets_ = recipe_.text("data.kind") == "synthetic" ? synthetic_sets(recipe_) : open_data_sets(settings());
}

int RecipeData::workers_for(const SampleSource& source) const {
  const auto workers = static_cast<int>(recipe_.integer("data.workers"));
  return workers < 0 && !source.is_in_memory() ? decoders_ : workers;
}

LoaderOptions RecipeData::loader_options(Shard shard, const SampleSource& source) const {
  LoaderOptions options;
  options.shard = shard;
  options.seed = seed_of(recipe_);
  options.workers = workers_for(source);
  const bool is_global = recipe_.has("data.global_batch");
  const std::string key = is_global ? "data.global_batch" : "data.batch";
  const auto batch = recipe_.integer(key);
  options.global_batch = is_global ? batch : batch * shard.count;
  if (options.global_batch > source.size()) {
    throw Error(ErrorKind::kRecipe,
                key + " is " + std::to_string(batch) + ": a global batch of " + std::to_string(options.global_batch) +
                    " is larger than the data set's " + std::to_string(source.size()) + " samples",
                "set data.global_batch to " + std::to_string(source.size()) + " or less");
  }
  return options;
}

std::unique_ptr<Loader> RecipeData::train_loader(Shard shard) {
  auto options = loader_options(shard, *sets_.train);
  options.shuffle = recipe_.flag("data.shuffle") && !sets_.train->is_stream();
  if (sets_.train->is_stream() && recipe_.flag("data.shuffle") &&
      recipe_.origin("data.shuffle").source > SettingSource::kUserFile) {
    throw Error(ErrorKind::kRecipe,
                "data.shuffle (" + recipe_.origin("data.shuffle").where +
                    ") is true, and an iterable data set has an order of its own",
                "leave it out, and shuffle in the data set");
  }
  options.drop_last = recipe_.flag("data.drop_last");
  return std::make_unique<Loader>(sets_.train, options);
}

std::unique_ptr<Loader> RecipeData::validation_loader(Shard shard) {
  if (!sets_.validation) return nullptr;
  auto options = loader_options(shard, *sets_.train);
  options.shuffle = false;
  options.global_batch = validation_batch(recipe_, options.global_batch, shard);
  return std::make_unique<Loader>(sets_.validation, options);
}

void RecipeData::setup_for_model(const DataSchema& training, const ModelRequest& request) {
  if (recipe_.text("data.kind") != "synthetic") {
    auto settings = this->settings();
    settings.needs_labels = request.needs_labels;
    if (!request.can_draw) settings.split.reset();
    sets_ = open_for_model(std::move(settings), training, request.part);
    return;
  }
  auto sets = synthetic_sets(recipe_);
  const auto& split = request.part.split;
  sets_.schema = training;
  sets_.validation = split == "train" ? sets.train : split == "validation" || split.empty() ? sets.validation : nullptr;
  if (!sets_.validation) {
    throw Error(ErrorKind::kData, "the generated data have no part '" + (split.empty() ? "validation" : split) + "'",
                "ask for train, or for validation if data.split is set");
  }
  require_fit(*sets_.validation, training, "data.kind = 'synthetic'");
}

std::unique_ptr<Loader> RecipeData::model_loader(Shard shard) const {
  LoaderOptions options;
  options.shard = shard;
  options.seed = seed_of(recipe_);
  options.workers = workers_for(*sets_.validation);
  options.shuffle = false;
  const bool is_global = recipe_.has("data.global_batch");
  const auto batch = recipe_.integer(is_global ? "data.global_batch" : "data.batch");
  options.global_batch = validation_batch(recipe_, is_global ? batch : batch * shard.count, shard);
  return std::make_unique<Loader>(sets_.validation, options);
}

}  // namespace lockstep
