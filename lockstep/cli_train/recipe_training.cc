// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/recipe_training.h"

#include <torch/torch.h>

#include <cmath>

#include "lockstep/base/text.h"
#include "lockstep/cli_train/recipe_data.h"
#include "lockstep/cli_train/recipe_schedule.h"
#include "lockstep/models/compiled_network.h"
#include "lockstep/models/plugin.h"
#include "lockstep/models/script_network.h"
#include "lockstep/models/weights.h"
#include "lockstep/train/task/classifier.h"
#include "lockstep/train/task/masked_language_model.h"
#include "lockstep/train/task/regressor.h"

namespace lockstep {
namespace {

using TaskLoss = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

OptimizerSettings optimizer_of(const Recipe& recipe) {
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
  return optimizer;
}

// The network gets one output for each number of the target.
bool is_regression(const DataSchema& data) {
  const auto& fields = data.fields;
  return data.classes == 0 && fields.size() > 1 && fields[1].dtype == "F32" && fields[1].shape.size() == 1;
}

NetworkOptions network_of(const Recipe& recipe, const DataSchema& data) {
  NetworkOptions network;
  network.name = recipe.text("model.name");
  network.input_shape = data.fields.at(0).shape;
  network.classes = is_regression(data) ? data.fields[1].shape[0] : data.classes;
  network.takes_text = recipe.text("data.kind") == "text";
  if (recipe.has("model.hidden")) network.hidden = recipe.integers("model.hidden");
  if (recipe.has("model.stem")) network.resnet.stem = recipe.text("model.stem");
  if (recipe.has("model.zero_init_residual")) {
    network.resnet.zero_init_residual = recipe.flag("model.zero_init_residual");
  }
  const auto take = [&](const char* key, std::int64_t& vit, std::int64_t& bert) {
    if (recipe.has(key)) (network.name == "bert" ? bert : vit) = recipe.integer(key);
  };
  std::int64_t none = 0;
  take("model.patch_size", network.vit.patch_size, none);
  take("model.layers", network.vit.layers, network.bert.layers);
  take("model.heads", network.vit.heads, network.bert.heads);
  take("model.width", network.vit.width, network.bert.width);
  take("model.mlp_dim", network.vit.mlp_dim, none);
  take("model.intermediate", none, network.bert.intermediate);
  take("model.max_positions", none, network.bert.max_positions);
  if (recipe.has("model.dropout")) {
    network.vit.dropout = recipe.real("model.dropout");
    network.bert.dropout = network.bert.attention_dropout = recipe.real("model.dropout");
  }
  return network;
}

std::shared_ptr<Network> plain_network(const Recipe& recipe, const NetworkOptions& network, PythonHost* python) {
  if (recipe.python_name("model.name")) {
    LOCKSTEP_ASSERT(python != nullptr);
    return python->network(recipe, network);
  }
  const auto file = recipe.named_file("model.name");
  if (!file) return make_network(network);
  return network.name.starts_with("script:") ? make_script_network(*file, network)
                                             : make_plugin_network(*file, network);
}

constexpr std::string_view kMetrics = "metrics.";

TaskLoss loss_of(const Recipe& recipe, PythonHost* python) {
  const auto refuse = [&](const std::string& other, const std::string& hint) {
    throw Error(ErrorKind::kRecipe,
                "loss.name (" + recipe.origin("loss.name").where + ") takes the place of the loss that " + other, hint);
  };
  if (recipe.text("data.kind") == "text")
    refuse("a text's masked places have", "leave it out for data.kind = \"text\"");
  for (const auto& transform :
       recipe.has("data.transforms") ? recipe.texts("data.transforms") : std::vector<std::string>{}) {
    if (transform.starts_with("mixup") || transform.starts_with("cutmix")) {
      refuse(transform + " mixes", "leave one of the two out");
    }
  }
  LOCKSTEP_ASSERT(python != nullptr);
  return python->loss(recipe);
}

std::map<std::string, TaskLoss> metrics_of(const Recipe& recipe, PythonHost* python) {
  std::map<std::string, TaskLoss> metrics;
  for (const auto& key : recipe.python_keys()) {
    if (!key.starts_with(kMetrics)) continue;
    const auto name = "val_" + key.substr(kMetrics.size());
    for (const char* own : {"val_loss", "val_accuracy", "val_top5", "val_f1", "val_mae", "val_perplexity"}) {
      if (name != own) continue;
      throw Error(ErrorKind::kRecipe,
                  key + " (" + recipe.origin(key).where + ") would be " + name + ", which is Lockstep's own",
                  "give it another name");
    }
    LOCKSTEP_ASSERT(python != nullptr);
    metrics.emplace(name, python->metric(recipe, key));
  }
  return metrics;
}

std::shared_ptr<Network> built_network(const Recipe& recipe, const NetworkOptions& network,
                                       const NetworkSource& source) {
  auto plain = plain_network(recipe, network, source.python);
  if (!source.compiled.empty()) return make_compiled_network(source.compiled, std::move(plain), OtherBatches::kAll);
  if (!recipe.has("model.compiled") || !recipe.word("model.compiled").empty()) return plain;
  return make_compiled_network(recipe.path("model.compiled"), std::move(plain));
}

// Returns the first key that begins with `start` and is set for this run: by the recipe, the environment or a flag, not
// by a default or the user's file.
std::optional<std::string> set_key(const Recipe& recipe, const std::string& start) {
  for (const auto& [key, setting] : recipe.settings()) {
    if (key.starts_with(start) && setting.origin.source > SettingSource::kUserFile) return key;
  }
  return std::nullopt;
}

// Refuses a setting that decides the same as a method of the network's own steps, since only one of them would count.
void require_one_owner(const Recipe& recipe, Network& network, const Mixing& mixing) {
  auto* with = dynamic_cast<WithOwnSteps*>(&network);
  const auto* own = with == nullptr ? nullptr : with->own_steps();
  if (own == nullptr) return;
  const auto require = [&](bool is_own, const char* method, const std::optional<std::string>& key) {
    if (!is_own || !key) return;
    throw Error(ErrorKind::kRecipe,
                *key + " (" + recipe.origin(*key).where + ") is set, and " + recipe.text("model.name") + " has " +
                    method + ", which decides the same",
                "leave one of the two out; with model.steps = \"recipe\" the class's own steps are not called");
  };
  require(own->has_training_step(), "training_step", set_key(recipe, "loss."));
  if (mixing.mixup_alpha > 0 || mixing.cutmix_alpha > 0) {
    require(own->has_training_step(), "training_step", "data.transforms");
  }
  require(own->has_validation_step(), "validation_step", set_key(recipe, std::string(kMetrics)));
  require(own->has_optimizer(), "configure_optimizers", set_key(recipe, "optimizer."));
  require(own->has_optimizer(), "configure_optimizers", set_key(recipe, "scheduler."));
}

// These settings need several ranks. With one rank an error is better than a silent difference.
void require_ranks_for(const Recipe& recipe, const std::string& key, bool is_set) {
  const auto strategy = recipe.text("trainer.strategy");
  if (!is_set || strategy == "auto" || strategy == "ddp") return;
  throw Error(ErrorKind::kRecipe,
              key + " (" + recipe.origin(key).where + ") works between ranks, and trainer.strategy is " + strategy,
              "leave it out, or set trainer.strategy = \"ddp\"");
}

StepOptions step_of(const Recipe& recipe) {
  StepOptions step;
  require_ranks_for(recipe, "trainer.sync_batchnorm", recipe.flag("trainer.sync_batchnorm"));
  require_ranks_for(recipe, "trainer.static_graph", recipe.flag("trainer.static_graph"));
  require_ranks_for(recipe, "trainer.compression", recipe.text("trainer.compression") != "none");
  if (recipe.text("trainer.strategy") == "dp" && recipe.has("trainer.devices")) {
    step.replicas = recipe.integer("trainer.devices");
  }
  step.precision = precision_named(recipe.text("trainer.precision"));
  step.accumulate = recipe.integer("trainer.accumulate");
  if (recipe.has("trainer.clip_norm")) step.clip_norm = recipe.real("trainer.clip_norm");
  if (recipe.has("trainer.clip_value")) step.clip_value = recipe.real("trainer.clip_value");
  step.sync_batchnorm = recipe.flag("trainer.sync_batchnorm");
  step.device.deterministic = recipe.flag("trainer.deterministic");
  step.device.keep_data = parse_toggle(recipe.text("data.on_device"), "data.on_device");
  step.heal = parse_toggle(recipe.text("trainer.heal"), "trainer.heal");
  step.device.graph = parse_toggle(recipe.text("trainer.graph"), "trainer.graph");
  step.parallel.bucket_mib = recipe.real("trainer.bucket_mb");
  step.parallel.find_unused_parameters = recipe.flag("trainer.find_unused_parameters");
  step.parallel.static_graph = recipe.flag("trainer.static_graph");
  step.parallel.compression = {.kind = compression_named(recipe.text("trainer.compression")),
                               .rank = recipe.integer("trainer.compression_rank"),
                               .start_step = recipe.integer("trainer.compression_start"),
                               .seed = seed_of(recipe)};
  return step;
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::ptrdiff_t kShown = 4;
  if (std::ssize(names) <= kShown) return joined(names, ", ");
  return joined({names.begin(), names.begin() + kShown}, ", ") + " and " + std::to_string(names.size() - kShown) +
         " more";
}

std::string summary(const std::filesystem::path& path, const LoadedWeights& loaded) {
  auto text = "weights from " + path.string();
  if (!loaded.prefix.empty()) text += ", its prefix '" + loaded.prefix + "' taken off";
  if (!loaded.initial.empty()) text += "; left as drawn: " + some_of(loaded.initial);
  if (!loaded.unused.empty()) text += "; not used: " + some_of(loaded.unused);
  return text;
}

std::chrono::seconds whole_seconds(double value) {
  return std::chrono::seconds(static_cast<std::int64_t>(std::ceil(value)));
}

SnapshotOptions snapshot_of(const Recipe& recipe, const std::filesystem::path& folder) {
  SnapshotOptions snapshot;
  snapshot.folder = folder;
  snapshot.every_epochs = recipe.has("snapshot.every_epochs") ? recipe.integer("snapshot.every_epochs") : 0;
  snapshot.every_steps = recipe.integer("snapshot.every_steps");
  snapshot.every = whole_seconds(recipe.real("snapshot.every_minutes") * 60);
  snapshot.in_memory = recipe.integer("snapshot.in_memory");
  snapshot.keep = recipe.integer("snapshot.keep");
  snapshot.keep_every = whole_seconds(recipe.real("snapshot.keep_every_hours") * 3600);
  if (recipe.has("snapshot.monitor")) snapshot.monitor = recipe.text("snapshot.monitor");
  snapshot.monitor_wants_max = recipe.text("snapshot.mode") == "max";
  return snapshot;
}

GuardOptions guard_of(const Recipe& recipe) {
  GuardOptions guard;
  const auto nonfinite = recipe.text("guard.on_nonfinite");
  if (nonfinite == "skip") guard.on_nonfinite = OnNonfinite::kSkip;
  if (nonfinite == "rollback") guard.on_nonfinite = OnNonfinite::kRollback;
  if (nonfinite == "ignore") guard.on_nonfinite = OnNonfinite::kIgnore;
  if (recipe.has("guard.every_steps")) guard.compare.every_steps = recipe.integer("guard.every_steps");
  if (recipe.text("guard.on_difference") == "heal") guard.compare.on_difference = OnDifference::kHeal;
  return guard;
}

}  // namespace

// The channels-last layout makes convolutions in narrow types faster on any device. On AMD EPYC a step of ResNet-18 in
// bf16 takes a fifth of the time. In float32 it gains nothing, and with few channels it is slower.
bool wants_channels_last(const Recipe& recipe, const RankDevice& device) {
  const auto layout = recipe.text("trainer.channels_last");
  if (layout != "auto") return layout == "on";
  const auto precision = precision_named(recipe.text("trainer.precision"));
  const bool is_narrow = precision == Precision::kBf16 || precision == Precision::kFp16;
  return is_narrow || (precision == Precision::kTf32 && !device.is_cpu());
}

std::shared_ptr<Network> network_to_train(const Recipe& recipe, const DataSets& sets, const RankDevice& device,
                                          PythonHost* python) {
  auto network = plain_network(recipe, network_of(recipe, sets.schema), python);
  convert_floating(*network, weights_type(precision_named(recipe.text("trainer.precision"))));
  if (recipe.has("model.freeze")) freeze(*network, recipe.texts("model.freeze"));
  if (wants_channels_last(recipe, device)) lay_channels_last(*network);
  return network;
}

std::unique_ptr<NetworkTask> task_of(const Recipe& recipe, const DataSets& sets, const RankDevice& device,
                                     const NetworkSource& source, std::vector<std::string>* notes) {
  const auto network = network_of(recipe, sets.schema);
  TaskOptions task;
  task.optimizer = optimizer_of(recipe);
  if (recipe.has("optimizer.groups")) task.groups = parsed_groups(recipe.texts("optimizer.groups"));
  task.schedule = [recipe](const TrainingPlan& plan) { return schedule_of(recipe, plan); };
  task.type = weights_type(precision_named(recipe.text("trainer.precision")));
  task.normalisation = sets.normalisation;
  task.mixing = sets.mixing;
  task.seed = seed_of(recipe);
  task.is_recordable = recipe.text("model.name").find(':') == std::string::npos;
  task.rebuild = [recipe, network, source] { return built_network(recipe, network, source); };
  if (recipe.has("loss.name")) task.loss = loss_of(recipe, source.python);
  task.metrics = metrics_of(recipe, source.python);
  torch::manual_seed(seed_of(recipe));
  auto made = task.rebuild();
  require_one_owner(recipe, *made, sets.mixing);
  std::unique_ptr<NetworkTask> module;
  if (recipe.text("data.kind") == "text") {
    module = std::make_unique<MaskedLanguageModel>(made, task);
  } else if (is_regression(sets.schema)) {
    module = std::make_unique<Regressor>(made, task);
  } else {
    module = std::make_unique<Classifier>(made, network.classes, task);
  }
  if (recipe.has("model.weights")) {
    const auto path = recipe.path("model.weights");
    const auto loaded = load_weights(*module, path, {.except = recipe.texts("model.weights_except")});
    if (notes != nullptr) notes->push_back(summary(path, loaded));
  }
  if (recipe.has("model.freeze")) freeze(*module, recipe.texts("model.freeze"));
  if (wants_channels_last(recipe, device)) module->use_channels_last();
  return module;
}

TrainerOptions trainer_options_of(const Recipe& recipe, const std::filesystem::path& snapshots) {
  TrainerOptions options;
  options.max_epochs = recipe.has("trainer.max_epochs") ? recipe.integer("trainer.max_epochs") : 0;
  options.max_steps = recipe.has("trainer.max_steps") ? recipe.integer("trainer.max_steps") : 0;
  if (recipe.has("trainer.max_time")) options.max_time = whole_seconds(recipe.real("trainer.max_time"));
  options.log_every = recipe.integer("observe.log_every");
  options.seed = seed_of(recipe);
  options.step = step_of(recipe);
  options.data.train_batches = recipe.real("trainer.limit_train_batches");
  options.data.validation_batches = recipe.real("trainer.limit_val_batches");
  options.data.validation_batch = validation_unit(recipe);
  options.data.overfit_batches = recipe.integer("trainer.overfit_batches");
  options.data.validate_every = recipe.integer("trainer.validate_every");
  options.snapshot = snapshot_of(recipe, snapshots);
  options.guard = guard_of(recipe);
  return recipe.flag("trainer.fast_dev_run") ? fast_dev_run(options) : options;
}

}  // namespace lockstep
