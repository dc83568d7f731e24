// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/schema.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

using enum SettingType;
constexpr auto kAside = SettingRole::kAside;

constexpr double kLargest = 1e9;  // What readers keep in an int must fit in one.

constexpr SettingRule kAtLeast0 = {"at least 0", [](double v) { return v >= 0; }};
constexpr SettingRule kAtLeast1 = {"at least 1", [](double v) { return v >= 1; }};
constexpr SettingRule kCount = {"1 to 1e9", [](double v) { return v >= 1 && v <= kLargest; }};
constexpr SettingRule kAtLeastTwo = {"2 to 1e9", [](double v) { return v >= 2 && v <= kLargest; }};
constexpr SettingRule kCountOr0 = {"0 to 1e9", [](double v) { return v >= 0 && v <= kLargest; }};
constexpr SettingRule kCountOrAuto = {"-1 to 1e9", [](double v) { return v >= -1 && v <= kLargest; }};
constexpr SettingRule kAbove0 = {"above 0", [](double v) { return v > 0; }};
constexpr SettingRule kSpan = {"above 0 and at most 1e9", [](double v) { return v > 0 && v <= 1e9; }};
constexpr SettingRule kShare = {"at least 0 and below 1", [](double v) { return v >= 0 && v < 1; }};
constexpr SettingRule kShareOrCount = {"a share above 0 and below 1, or a number of samples from 1 on",
                                       [](double v) { return v > 0 && (v < 1 || v == std::floor(v)); }};
constexpr SettingRule kShareOrCountOr0 = {"0, a share below 1, or a whole number",
                                          [](double v) { return v >= 0 && (v < 1 || v == std::floor(v)); }};
constexpr SettingRule kWidths = {"each 1 to 1e9", kCount.holds};
constexpr SettingRule kShape = {"one or more, each 1 to 1e9", kCount.holds, {}, 1};
constexpr SettingRule kSteps = {"the first and the last, each 1 to 1e9", kCount.holds, {}, 2, 2};
constexpr SettingRule kBetas = {"two of them, each at least 0 and below 1", kShare.holds, {}, 2, 2};

constexpr std::string_view kResNets = "resnet18 resnet34 resnet50 resnet101 resnet152";

constexpr std::string_view kPythonModel = "python:FILE:CLASS";

constexpr SettingRule one_of(std::string_view names) { return {.names = names}; }
constexpr SettingTies only_for(std::string_view names) { return {.only_for = names}; }
constexpr SettingTies excluding(std::string_view keys) { return {.excludes = keys}; }
constexpr SettingTies yielding_to(std::string_view keys) { return {.yields_to = keys}; }
constexpr SettingTies same_as(std::string_view key) { return {.same_as = key}; }

// Folded by hand, since the formatter would give some rows a line for each field.
// clang-format off
constexpr auto kRows = std::to_array<SettingRow>({
    {"model.name", kText, kMustBeSet, one_of("mlp cnn resnet18 resnet34 resnet50 resnet101 resnet152 vit_b_16 bert python:FILE:CLASS script:FILE plugin:FILE"), "",
     "the network; its number of classes comes from the data"},
    {"model.hidden", kIntegers, "[128]", kWidths, "", "widths of the hidden layers, first to last", only_for("mlp")},
    {"model.stem", kText, "imagenet", one_of("imagenet cifar"), "",
     "how an image starts: 7 x 7 kernels and pooling, or 3 x 3 for images of some 32 pixels", only_for(kResNets)},
    {"model.zero_init_residual", kFlag, "false", {}, "", "each block starts as an identity", only_for(kResNets)},
    {"model.patch_size", kInteger, "16", kCount, "pixels", "the side of a patch", only_for("vit_b_16")},
    {"model.layers", kInteger, "12", kCount, "", "transformer layers", only_for("vit_b_16")},
    {"model.layers", kInteger, "2", kCount, "", "transformer layers", only_for("bert")},
    {"model.heads", kInteger, "12", kCount, "", "attention heads", only_for("vit_b_16")},
    {"model.heads", kInteger, "2", kCount, "", "attention heads", only_for("bert")},
    {"model.width", kInteger, "768", kCount, "", "numbers for each token", only_for("vit_b_16")},
    {"model.width", kInteger, "128", kCount, "", "numbers for each token", only_for("bert")},
    {"model.mlp_dim", kInteger, "3072", kCount, "", "width between a layer's two products", only_for("vit_b_16")},
    {"model.intermediate", kInteger, "512", kCount, "", "width between a layer's two products", only_for("bert")},
    {"model.max_positions", kInteger, "512", kCount, "", "the longest text", only_for("bert")},
    {"model.dropout", kReal, "0", kShare, "", "what is left out in training", only_for("vit_b_16")},
    {"model.dropout", kReal, "0.1", kShare, "", "what is left out in training", only_for("bert")},
    {"model.args.NAME", kAny, "", {}, "", "an argument of the Python class or function, by its name", only_for(kPythonModel)},
    {"model.weights", kPath, "", {}, "", "weights to start from: safetensors, .pt, .ckpt, a Hugging Face folder, a run",
     {}, kAside},
    {"model.weights_except", kTexts, "", {}, "", "what stays random, by name; * stands for any letters: \"fc.*\""},
    {"model.compiled", kPath, "", {}, "", "how it trains: forward and backward pass as python/compile_model.py compiled them", {}, kAside},
    {"model.freeze", kTexts, "", {}, "", "parameters that stay as they are, by name; * stands for any letters"},

    {"data.kind", kText, kMustBeSet, one_of("idx folder cifar10 cifar100 hdf5 text csv synthetic"), "",
     "the format: MNIST's IDX files, a folder of images for each class, …, or made up on the spot"},
    {"data.path", kPath, kMustBeSet, {}, "", "the folder or file of the data set",
     only_for("idx folder cifar10 cifar100 hdf5 text csv"), kAside},
    {"data.transforms", kTexts, "", {}, "", "what is done to each training image, e.g. \"random_resized_crop(64)\", \"flip\"",
     only_for("idx folder cifar10 cifar100 hdf5")},
    {"data.eval_transforms", kTexts, "", {}, "", "the same for validation; by default data.transforms without chance",
     only_for("idx folder cifar10 cifar100 hdf5")},
    {"data.strict", kFlag, "false", {}, "", "a file that is no image ends the run instead of being left out",
     only_for("folder")},
    {"data.by_content", kFlag, "true", {}, "",
     "a file is an image by its first bytes; false: by its name, without opening it", only_for("folder")},
    {"data.input", kText, "", {}, "", "the array of samples; by default x, images, image, data or inputs", only_for("hdf5")},
    {"data.target", kText, "", {}, "", "the array of labels; by default y, labels, label or targets", only_for("hdf5")},
    {"data.window", kInteger, "128", kCount, "bytes", "the length of one sample", only_for("text")},
    {"data.mask_share", kReal, "0.15", kShare, "", "of a window's bytes, what the model is to fill in", only_for("text")},
    {"data.label", kText, "", {}, "", "the column that holds the target; by default the last", only_for("csv")},
    {"data.regression", kFlag, "false", {}, "", "that column holds numbers to be told, not classes", only_for("csv")},
    {"data.samples", kInteger, "1000", kAtLeast1, "samples", "how many to make up", only_for("synthetic")},
    {"data.classes", kInteger, "2", kCount, "classes", "how many the samples fall into", only_for("synthetic")},
    {"data.shape", kIntegers, "[2]", kShape, "", "the shape of one sample", only_for("synthetic")},
    {"data.split", kReal, "", kShareOrCount, "",
     "held out for validation, drawn by the seed, where the set has no such part of its own"},
    {"data.batch", kInteger, "32", kCount, "samples", "the batch of one rank", excluding("data.global_batch")},
    {"data.global_batch", kInteger, "", kCount, "samples", "the batch of all ranks", excluding("data.batch")},
    {"data.eval_batch", kInteger, "", kCount, "samples",
     "batch of one rank in validation, eval and predict; by default 4 times the training batch, at most 256", {}, kAside},
    {"data.shuffle", kFlag, "true", {}, "", "draw a new order for each epoch, from seed and epoch alone"},
    {"data.drop_last", kFlag, "false", {}, "", "leave out an epoch's last batch where it is short"},
    {"data.workers", kInteger, "-1", kCountOrAuto, "threads",
     "what decodes ahead in each rank; 0 decodes in the loop, -1 chooses", {}, kAside},
    {"data.on_device", kText, "auto", one_of("auto on off"), "",
     "all samples kept in a GPU's memory; auto: where they are the same in each epoch, but for crops and flips, and are few", {}, kAside},

    {"trainer.max_epochs", kInteger, "1", kAtLeast1, "epochs", "the end of the run",
     yielding_to("trainer.max_steps trainer.max_time")},
    {"trainer.max_steps", kInteger, "", kAtLeast1, "steps", "the end of the run, where it comes first"},
    {"trainer.max_time", kDuration, "", kSpan, "", "the end of the run if it comes first; the time of all its starts counts"},
    {"trainer.accelerator", kText, "auto", one_of("auto cpu gpu"), "", "what to train on", {}, kAside},
    {"trainer.share_device", kFlag, "false", {}, "", "several ranks may compute on one GPU; they then talk through Gloo", {},
     kAside},
    {"trainer.devices", kInteger, "", kCount, "devices",
     "ranks on each node; by default one for each GPU, or one where there is none", {}, kAside},
    {"trainer.num_nodes", kInteger, "", kCount, "nodes",
     "another name for cluster.nodes", same_as("cluster.nodes"), kAside},
    {"trainer.strategy", kText, "auto", one_of("auto single ddp dp"), "",
     "one rank; data-parallel ranks; or one rank with a copy of the model for each device", {}, kAside},
    {"trainer.precision", kText, "fp32", one_of("fp64 fp32 tf32 bf16 fp16"), "",
     "the arithmetic; bf16 and fp16 keep weights in float32"},
    {"trainer.channels_last", kText, "auto", one_of("auto on off"), "",
     "how images are laid out; auto: with the channels last in bf16 and fp16, on a GPU also in tf32"},
    {"trainer.graph", kText, "auto", one_of("auto on off"), "",
     "a GPU's whole steps recorded once and replayed; auto: where they can be and are faster so", {}, kAside},
    {"trainer.accumulate", kInteger, "1", kCount, "batches", "what is added up before each update of the weights"},
    {"trainer.clip_norm", kReal, "", kAbove0, "",
     "gradients are scaled down to this L2 norm where theirs is larger"},
    {"trainer.clip_value", kReal, "", kAbove0, "", "each gradient's numbers are held within this on both sides"},
    {"trainer.sync_batchnorm", kFlag, "false", {}, "", "BatchNorm takes its statistics over all ranks"},
    {"trainer.deterministic", kFlag, "false", {}, "", "only algorithms that give the same bits each time"},
    {"trainer.find_unused_parameters", kFlag, "false", {}, "", "for models whose loss leaves some parameters out"},
    {"trainer.static_graph", kFlag, "false", {}, "",
     "the loss leaves out the same parameters in each step: they are found once"},
    {"trainer.compression", kText, "none", one_of("none fp16 bf16 powersgd"), "",
     "how gradients travel: rounded, or as products of thin matrices"},
    {"trainer.compression_rank", kInteger, "1", kCount, "columns", "of powersgd's matrices"},
    {"trainer.compression_start", kInteger, "1000", kAtLeastTwo, "steps", "before powersgd begins"},
    {"trainer.average", kText, "none", one_of("none ema swa"), "",
     "a second set of weights, averaged over steps or over epochs' ends; validation sees it"},
    {"trainer.average_decay", kReal, "0.999", kShare, "", "of ema, a step"},
    {"trainer.average_from", kInteger, "0", kAtLeast0, "epochs", "when averaging begins"},
    {"trainer.limit_train_batches", kReal, "0", kShareOrCountOr0, "", "a share of an epoch's batches, or so many; 0 for all"},
    {"trainer.limit_val_batches", kReal, "0", kShareOrCountOr0, "",
     "the same for validation, in batches of data.eval_batch or else 256 samples on any number of ranks"},
    {"trainer.overfit_batches", kInteger, "0", kCountOr0, "batches",
     "train and validate on the first few alone, to see whether the model can learn them; 0 for no"},
    {"trainer.fast_dev_run", kFlag, "false", {}, "", "one batch of each kind, nothing saved: does everything work?"},
    {"trainer.seed", kInteger, "0", kAtLeast0, "", "decides initial weights, order of samples, split"},
    {"trainer.validate_every", kInteger, "1", kAtLeast0, "epochs", "from one validation to the next; 0 for none"},
    {"trainer.threads", kInteger, "0", kCountOr0, "threads",
     "what computes in each rank; 0 for OMP_NUM_THREADS, or where it is unset an equal share of the cores", {}, kAside},
    {"trainer.join_timeout", kDuration, "300", kSpan, "",
     "the longest wait for all ranks to arrive; the variable LOCKSTEP_MEET_TIMEOUT goes before it", {}, kAside},
    {"trainer.collective_timeout", kDuration, "1800", kSpan, "",
     "the longest wait for another rank in one collective; then the run ends with code 7", {}, kAside},
    {"trainer.bucket_mb", kReal, "25", kAbove0, "MiB", "gradients that are averaged in one message"},

    {"loss.name", kText, "", one_of("python:FILE:FUNCTION"), "",
     "a Python function of output and target that returns the mean loss; by default cross entropy, for numbers the squared error"},

    {"optimizer.name", kText, "sgd", one_of("sgd adam adamw"), "", "PyTorch's optimizer of that name"},
    {"optimizer.lr", kReal, "0.001", kAtLeast0, "", "learning rate"},
    {"optimizer.momentum", kReal, "0", kAtLeast0, "", "share of the last update that is kept", only_for("sgd")},
    {"optimizer.dampening", kReal, "0", {}, "", "share of the gradient that momentum leaves out", only_for("sgd")},
    {"optimizer.nesterov", kFlag, "false", {}, "", "Nesterov's momentum", only_for("sgd")},
    {"optimizer.betas", kReals, "[0.9, 0.999]", kBetas, "",
     "decay of the running means of gradient and square", only_for("adam adamw")},
    {"optimizer.eps", kReal, "1e-08", kAtLeast0, "", "added to the denominator", only_for("adam adamw")},
    {"optimizer.amsgrad", kFlag, "false", {}, "", "keep the largest running mean of squares", only_for("adam adamw")},
    {"optimizer.weight_decay", kReal, "0", kAtLeast0, "", "L2 penalty", only_for("sgd adam")},
    {"optimizer.weight_decay", kReal, "0.01", kAtLeast0, "", "decay apart from the gradient", only_for("adamw")},

    {"optimizer.groups", kTexts, "", {}, "",
     "rates for some parameters, e.g. \"*.bias weight_decay=0\", \"fc.* lr=0.01\"; the first that fits counts"},

    {"scheduler.name", kText, "constant", one_of("constant step multistep exponential cosine linear onecycle plateau"), "",
     "how the learning rate moves: PyTorch's scheduler of that name"},
    {"scheduler.interval", kText, "epoch", one_of("epoch step"), "", "what the scheduler counts",
     only_for("constant step multistep exponential cosine linear plateau")},
    {"scheduler.interval", kText, "step", one_of("epoch step"), "", "what the scheduler counts", only_for("onecycle")},
    {"scheduler.warmup", kInteger, "0", kCountOr0, "", "epochs or steps in which the rate first rises linearly"},
    {"scheduler.warmup_start_factor", kReal, "0.1", kShare, "", "of the rate, where the warm-up begins"},
    {"scheduler.step_size", kInteger, "30", kCount, "", "from one lowering to the next", only_for("step")},
    {"scheduler.milestones", kIntegers, kMustBeSet, kWidths, "", "when the rate is lowered", only_for("multistep")},
    {"scheduler.gamma", kReal, "0.1", kAbove0, "", "what the rate is multiplied by", only_for("step multistep")},
    {"scheduler.gamma", kReal, "0.95", kAbove0, "", "what the rate is multiplied by", only_for("exponential")},
    {"scheduler.T_max", kInteger, "", kCount, "", "the length of the fall; by default the whole run", only_for("cosine")},
    {"scheduler.eta_min", kReal, "0", kAtLeast0, "", "where the rate ends", only_for("cosine")},
    {"scheduler.start_factor", kReal, "0.3333333333333333", kAbove0, "", "of the rate, at the start", only_for("linear")},
    {"scheduler.end_factor", kReal, "1", kAtLeast0, "", "of the rate, at the end", only_for("linear")},
    {"scheduler.total_iters", kInteger, "5", kCount, "", "from start to end", only_for("linear")},
    {"scheduler.max_lr", kReal, kMustBeSet, kAbove0, "", "the cycle's largest rate", only_for("onecycle")},
    {"scheduler.total_steps", kInteger, "", kCount, "", "the cycle's length; by default the whole run", only_for("onecycle")},
    {"scheduler.pct_start", kReal, "0.3", kShare, "", "share of the cycle in which the rate rises", only_for("onecycle")},
    {"scheduler.div_factor", kReal, "25", kAbove0, "", "max_lr is this times the first rate", only_for("onecycle")},
    {"scheduler.final_div_factor", kReal, "10000", kAbove0, "", "the first rate is this times the last", only_for("onecycle")},
    {"scheduler.cycle_momentum", kFlag, "true", {}, "", "the momentum runs the other way round", only_for("onecycle")},
    {"scheduler.base_momentum", kReal, "0.85", kShare, "", "the momentum at max_lr", only_for("onecycle")},
    {"scheduler.max_momentum", kReal, "0.95", kShare, "", "the momentum at both ends", only_for("onecycle")},
    {"scheduler.monitor", kText, "val_loss", {}, "", "the metric that should go on improving", only_for("plateau")},
    {"scheduler.mode", kText, "min", one_of("min max"), "", "whether the metric should fall or rise", only_for("plateau")},
    {"scheduler.factor", kReal, "0.1", kShare, "", "what the rate is multiplied by", only_for("plateau")},
    {"scheduler.patience", kInteger, "10", kCountOr0, "", "validations without a gain that are borne", only_for("plateau")},
    {"scheduler.threshold", kReal, "1e-04", kAtLeast0, "", "the share by which a gain must gain", only_for("plateau")},
    {"scheduler.cooldown", kInteger, "0", kCountOr0, "", "validations after a lowering that do not count", only_for("plateau")},
    {"scheduler.min_lr", kReal, "0", kAtLeast0, "", "the rate is never lowered beyond", only_for("plateau")},

    {"early_stopping.monitor", kText, "", {}, "", "a metric: the run ends once it improves no more"},
    {"early_stopping.mode", kText, "min", one_of("min max"), "", "whether the metric should fall or rise"},
    {"early_stopping.patience", kInteger, "3", kCount, "", "validations without a gain that are borne"},
    {"early_stopping.min_delta", kReal, "0", kAtLeast0, "", "what counts as a gain"},

    {"guard.on_nonfinite", kText, "stop", one_of("stop skip ignore"), "",
     "what a loss or gradient that is not finite does: end the run, leave out its step, or nothing", {}, kAside},
    {"guard.every_steps", kInteger, "", kCountOr0, "steps",
     "from one comparison of the ranks' weights to the next; 0 for none; by default at most 1 % of the time", {}, kAside},
    {"guard.on_difference", kText, "stop", one_of("stop heal"), "",
     "what ranks whose weights differ do: end the run, or take those of the majority", {}, kAside},

    {"snapshot.monitor", kText, "", {}, "", "a metric: the snapshot where it was best is kept besides, as `best`", {}, kAside},
    {"snapshot.mode", kText, "min", one_of("min max"), "", "whether the metric should fall or rise", {}, kAside},
    {"snapshot.every_epochs", kInteger, "1", kAtLeast0, "epochs",
     "from one snapshot to the next; 0 for none; a run's end always writes one",
     yielding_to("snapshot.every_steps snapshot.every_minutes"), kAside},
    {"snapshot.every_steps", kInteger, "0", kAtLeast0, "steps", "the same; 0 for none", {}, kAside},
    {"snapshot.every_minutes", kReal, "0", kAtLeast0, "minutes", "the same; 0 for none", {}, kAside},
    {"snapshot.in_memory", kInteger, "0", kAtLeast0, "steps",
     "from one state that the parent process holds in memory, and writes if a rank dies, to the next; 0 for none", {},
     kAside},
    {"snapshot.keep", kInteger, "3", kCountOr0, "snapshots", "the latest that stay; 0 for all", {}, kAside},
    {"snapshot.keep_every_hours", kReal, "0", kAtLeast0, "hours",
     "beside them, of older ones, one for each such time stays; 0 for none", {}, kAside},

    {"observe.log_every", kInteger, "50", kAtLeast0, "steps",
     "from one logged loss to the next; 0 for none", {}, kAside},
    {"observe.tensorboard", kFlag, "true", {}, "", "write event files that TensorBoard shows", {}, kAside},
    {"observe.profile", kIntegers, "", kSteps, "", "steps in which LibTorch's profiler records every operation, into trace/",
     {}, kAside},
    {"observe.profile_ranks", kInteger, "4", kCount, "ranks", "the first so many write such a trace, one file each", {}, kAside},

    {"cluster.name", kText, "", {}, "", "the system, as `lockstep profile ls` names it; by default the one that this is",
     {}, kAside},
    {"cluster.nodes", kInteger, "", kCount, "nodes", "what to ask the scheduler for", {}, kAside},
    {"cluster.time", kDuration, "", kSpan, "", "the job's limit; a run goes on after it in the next job", {}, kAside},
    {"cluster.account", kText, "", {}, "", "who pays", {}, kAside},
    {"cluster.partition", kText, "", {}, "", "by default the profile's", {}, kAside},
    {"cluster.qos", kText, "", {}, "", "by default the profile's", {}, kAside},
    {"cluster.setup", kTexts, "", {}, "", "lines of shell that each task runs first, inside the container", {}, kAside},
    {"cluster.setup_once", kTexts, "", {}, "", "lines of shell that the job runs once; tasks get what they export", {}, kAside},
    {"cluster.modules", kTexts, "", {}, "", "what `module load` gets, instead of the profile's; [] for none", {}, kAside},
    {"cluster.conda", kText, "", {}, "", "a conda environment to activate, by path or name", {}, kAside},
    {"cluster.container", kText, "", {}, "", "the image that tasks run in", {}, kAside},
    {"cluster.binds", kTexts, "", {}, "", "what the container sees besides, \"DIR\" or \"DIR:INSIDE\"", {}, kAside},
    {"cluster.env", kTexts, "", {}, "", "variables, \"NAME=value\"", {}, kAside},
    {"cluster.sbatch", kTexts, "", {}, "", "further flags of sbatch", {}, kAside},
});
// clang-format on

std::string_view leaf_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }

constexpr std::string_view kAnyName = ".NAME";

/// True if `key` is the row's own, or one of the many that "model.args.NAME" stands for.
bool is_key_of(const SettingRow& row, std::string_view key) {
  if (row.key == key) return true;
  if (!stands_for_many(row)) return false;
  const auto stem = row.key.substr(0, row.key.size() - kAnyName.size() + 1);
  return key.starts_with(stem) && key.size() > stem.size();
}

}  // namespace

std::span<const SettingRow> schema() { return kRows; }

std::vector<const SettingRow*> rows_of(std::string_view key) {
  std::vector<const SettingRow*> rows;
  for (const auto& row : kRows) {
    if (is_key_of(row, key)) rows.push_back(&row);
  }
  return rows;
}

bool stands_for_many(const SettingRow& row) { return row.key.ends_with(kAnyName); }

std::vector<std::string> setting_tables() {
  std::vector<std::string> tables;
  for (const auto& row : kRows) {
    if (tables.empty() || tables.back() != table_of(row.key)) tables.emplace_back(table_of(row.key));
  }
  return tables;
}

std::optional<std::string> selector_of(std::string_view table) {
  const bool has_choices = std::any_of(kRows.begin(), kRows.end(), [&](const auto& row) {
    return table_of(row.key) == table && !row.ties.only_for.empty();
  });
  if (!has_choices) return std::nullopt;
  for (const std::string_view leaf : {".kind", ".name"}) {
    auto key = std::string(table).append(leaf);
    if (!rows_of(key).empty()) return key;
  }
  return std::nullopt;
}

std::string_view table_of(std::string_view key) { return key.substr(0, key.find('.')); }

bool is_taken_by(const SettingRow& row, std::string_view selected) {
  if (row.ties.only_for.empty()) return true;
  const auto takers = words(row.ties.only_for);
  return std::ranges::any_of(takers,
                             [&](const auto& taker) { return taker == selected || names_file(taker, selected); });
}

std::optional<std::string> nearest_setting(std::string_view key) {
  std::vector<std::string> same_word;
  std::vector<std::string> all;
  for (const auto& row : kRows) {
    all.emplace_back(row.key);
    if (leaf_of(row.key) == leaf_of(key)) same_word.emplace_back(row.key);
  }
  if (same_word.size() == 1) return same_word.front();
  if (const auto near = nearest_name(key, same_word)) return near;
  return nearest_name(key, all);
}

std::string wanted(const SettingRow& row) {
  if (!row.rule.names.empty()) return "one of " + joined(words(row.rule.names), ", ");
  std::string text(row.type == kFlag       ? "true or false"
                   : row.type == kInteger  ? "a whole number"
                   : row.type == kReal     ? "a number"
                   : row.type == kText     ? "text"
                   : row.type == kPath     ? "a path"
                   : row.type == kDuration ? "\"HH:MM:SS\" or seconds"
                   : row.type == kIntegers ? "a list of whole numbers"
                   : row.type == kTexts    ? "a list of texts, or one text"
                   : row.type == kAny      ? "true or false, a number, text, or a list of one of them"
                                           : "a list of numbers");
  if (!row.unit.empty()) text.append(" of ").append(row.unit);
  if (!row.rule.wanted.empty()) text.append(", ").append(row.rule.wanted);
  return text;
}

bool names_file(std::string_view name, std::string_view text) {
  const auto file = name.find(":FILE");
  if (file == std::string_view::npos) return false;
  const auto kind = name.substr(0, file + 1);
  if (!text.starts_with(kind) || text.size() == kind.size()) return false;
  // What is in a Python file or module is named behind a second colon.
  const auto second = text.rfind(':');
  return name.ends_with(":FILE") || (second > file + 1 && second + 1 < text.size());
}

std::vector<std::string> words(std::string_view list) {
  if (list.empty()) return {};
  return split(list, ' ');
}

}  // namespace lockstep
