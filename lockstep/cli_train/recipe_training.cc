// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/recipe_training.h"

#include <torch/torch.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/data/core_sources.h"

namespace lockstep {
namespace {

std::uint64_t seed_of(const Recipe& recipe) { return static_cast<std::uint64_t>(recipe.integer("trainer.seed")); }

std::shared_ptr<const SampleSource> synthetic_of(const Recipe& recipe) {
  return synthetic_source({.samples = recipe.integer("data.samples"),
                           .classes = recipe.integer("data.classes"),
                           .shape = recipe.integers("data.shape"),
                           .seed = seed_of(recipe)});
}

// Validation batches hold no gradients, so they may be larger than those of training: fewer of them cost less.
constexpr std::int64_t kValidationBatch = 256;

}  // namespace

void RecipeData::setup() {
  if (train_) return;
  const bool has_split = recipe_.has("data.split");
  if (recipe_.text("data.kind") == "synthetic") {
    train_ = synthetic_of(recipe_);
  } else {
    const auto folder = recipe_.path("data.path");
    const bool has_train = has_idx_split(folder, "train");
    // A folder that holds only the smaller part of a set, as MNIST's 10 000 test images, is split by `data.split`.
    const bool only_validation = !has_train && has_split && has_idx_split(folder, "validation");
    train_ = idx_folder_source(folder, only_validation ? "validation" : "train");
    if (has_train && has_idx_split(folder, "validation")) {
      validation_ = idx_folder_source(folder, "validation", train_->classes());
    }
  }
  if (validation_ || !has_split) return;
  auto split = drawn_split(train_->size(), recipe_.real("data.split"), seed_of(recipe_));
  validation_ = subset(train_, std::move(split.validation));
  train_ = subset(train_, std::move(split.train));
}

LoaderOptions RecipeData::loader_options(Shard shard, const SampleSource& source) const {
  LoaderOptions options;
  options.shard = shard;
  options.seed = seed_of(recipe_);
  options.workers = static_cast<int>(recipe_.integer("data.workers"));
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
  auto options = loader_options(shard, *train_);
  options.shuffle = recipe_.flag("data.shuffle");
  options.drop_last = recipe_.flag("data.drop_last");
  return std::make_unique<Loader>(train_, options);
}

std::unique_ptr<Loader> RecipeData::validation_loader(Shard shard) {
  if (!validation_) return nullptr;
  auto options = loader_options(shard, *train_);
  options.shuffle = false;
  options.global_batch = std::max(options.global_batch, kValidationBatch * shard.count);
  return std::make_unique<Loader>(validation_, options);
}

std::unique_ptr<Classifier> module_of(const Recipe& recipe, const SampleSource& source) {
  NetworkOptions network;
  network.name = recipe.text("model.name");
  network.input_shape = source.fields().at(0).shape;
  network.classes = source.classes();
  if (recipe.has("model.hidden")) network.hidden = recipe.integers("model.hidden");

  OptimizerSettings optimizer;
  optimizer.name = recipe.text("optimizer.name");
  optimizer.lr = recipe.real("optimizer.lr");
  optimizer.weight_decay = recipe.real("optimizer.weight_decay");
  if (optimizer.name == "sgd") {
    optimizer.momentum = recipe.real("optimizer.momentum");
    optimizer.dampening = recipe.real("optimizer.dampening");
    optimizer.nesterov = recipe.flag("optimizer.nesterov");
  } else {
    const auto betas = recipe.reals("optimizer.betas");
    optimizer.betas = {betas.at(0), betas.at(1)};
    optimizer.eps = recipe.real("optimizer.eps");
    optimizer.amsgrad = recipe.flag("optimizer.amsgrad");
  }
  torch::manual_seed(seed_of(recipe));
  const auto type = recipe.text("trainer.precision") == "fp64" ? at::kDouble : at::kFloat;
  auto module = std::make_unique<Classifier>(make_network(network), optimizer, type);
  if (recipe.has("model.weights")) load_weights(*module, recipe.path("model.weights"));
  return module;
}

TrainerOptions trainer_options_of(const Recipe& recipe, const std::filesystem::path& snapshots) {
  using std::chrono::seconds;
  const auto whole_seconds = [](double value) { return seconds(static_cast<std::int64_t>(std::ceil(value))); };
  TrainerOptions options;
  options.max_epochs = recipe.has("trainer.max_epochs") ? recipe.integer("trainer.max_epochs") : 0;
  options.max_steps = recipe.has("trainer.max_steps") ? recipe.integer("trainer.max_steps") : 0;
  if (recipe.has("trainer.max_time")) options.max_time = whole_seconds(recipe.real("trainer.max_time"));
  options.data.validate_every = recipe.integer("trainer.validate_every");
  options.log_every = recipe.integer("observe.log_every");
  options.seed = seed_of(recipe);
  options.step.accumulate = recipe.integer("trainer.accumulate");
  if (recipe.has("trainer.clip_norm")) options.step.clip_norm = recipe.real("trainer.clip_norm");
  options.step.parallel.bucket_mib = recipe.real("trainer.bucket_mb");
  options.snapshot.folder = snapshots;
  options.snapshot.every_epochs = recipe.has("snapshot.every_epochs") ? recipe.integer("snapshot.every_epochs") : 0;
  options.snapshot.every_steps = recipe.integer("snapshot.every_steps");
  options.snapshot.every = whole_seconds(recipe.real("snapshot.every_minutes") * 60);
  options.snapshot.keep = recipe.integer("snapshot.keep");
  return options;
}

}  // namespace lockstep
