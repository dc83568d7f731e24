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
constexpr SettingRule kCountOr0 = {"0 to 1e9", [](double v) { return v >= 0 && v <= kLargest; }};
constexpr SettingRule kCountOrAuto = {"-1 to 1e9", [](double v) { return v >= -1 && v <= kLargest; }};
constexpr SettingRule kAbove0 = {"above 0", [](double v) { return v > 0; }};
constexpr SettingRule kSpan = {"above 0 and at most 1e9", [](double v) { return v > 0 && v <= 1e9; }};
constexpr SettingRule kShare = {"at least 0 and below 1", [](double v) { return v >= 0 && v < 1; }};
constexpr SettingRule kShareOrCount = {"a share above 0 and below 1, or a number of samples from 1 on",
                                       [](double v) { return v > 0 && (v < 1 || v == std::floor(v)); }};
constexpr SettingRule kWidths = {"each 1 to 1e9", kCount.holds};
constexpr SettingRule kShape = {"one or more, each 1 to 1e9", kCount.holds, {}, 1};
constexpr SettingRule kBetas = {"two of them, each at least 0 and below 1", kShare.holds, {}, 2, 2};

constexpr SettingRule one_of(std::string_view names) { return {.names = names}; }
constexpr SettingTies only_for(std::string_view names) { return {.only_for = names}; }
constexpr SettingTies excluding(std::string_view keys) { return {.excludes = keys}; }
constexpr SettingTies yielding_to(std::string_view keys) { return {.yields_to = keys}; }
constexpr SettingTies same_as(std::string_view key) { return {.same_as = key}; }

// Folded by hand, since the formatter would give some rows a line for each field.
// clang-format off
constexpr auto kRows = std::to_array<SettingRow>({
    {"model.name", kText, kMustBeSet, one_of("mlp cnn"), "", "the network; its number of classes comes from the data"},
    {"model.hidden", kIntegers, "[128]", kWidths, "", "widths of the hidden layers, first to last", only_for("mlp")},
    {"model.weights", kPath, "", {}, "", "a .safetensors file to start from instead of random weights", {}, kAside},

    {"data.kind", kText, kMustBeSet, one_of("idx synthetic"), "",
     "the format: MNIST's IDX files, or made up on the spot"},
    {"data.path", kPath, kMustBeSet, {}, "", "the folder of the data set", only_for("idx"), kAside},
    {"data.samples", kInteger, "1000", kAtLeast1, "samples", "how many to make up", only_for("synthetic")},
    {"data.classes", kInteger, "2", kCount, "classes", "how many the samples fall into", only_for("synthetic")},
    {"data.shape", kIntegers, "[2]", kShape, "", "the shape of one sample", only_for("synthetic")},
    {"data.split", kReal, "", kShareOrCount, "",
     "held out for validation, drawn by the seed, where the set has no such part of its own"},
    {"data.batch", kInteger, "32", kCount, "samples", "the batch of one rank", excluding("data.global_batch")},
    {"data.global_batch", kInteger, "", kCount, "samples", "the batch of all ranks", excluding("data.batch")},
    {"data.shuffle", kFlag, "true", {}, "", "draw a new order for each epoch, from seed and epoch alone"},
    {"data.drop_last", kFlag, "false", {}, "", "leave out an epoch's last batch where it is short"},
    {"data.workers", kInteger, "-1", kCountOrAuto, "threads",
     "what decodes ahead in each rank; 0 decodes in the loop, -1 chooses", {}, kAside},

    {"trainer.max_epochs", kInteger, "1", kAtLeast1, "epochs", "the end of the run",
     yielding_to("trainer.max_steps trainer.max_time")},
    {"trainer.max_steps", kInteger, "", kAtLeast1, "steps", "the end of the run, where it comes first"},
    {"trainer.max_time", kDuration, "", kSpan, "", "the end of the run, where it comes first"},
    {"trainer.accelerator", kText, "auto", one_of("auto cpu gpu"), "", "what to train on", {}, kAside},
    {"trainer.devices", kInteger, "", kCount, "devices",
     "ranks on each node; by default one for each GPU, or one where there is none", {}, kAside},
    {"trainer.num_nodes", kInteger, "", kCount, "nodes",
     "another name for cluster.nodes", same_as("cluster.nodes"), kAside},
    {"trainer.strategy", kText, "auto", one_of("auto single ddp"), "", "one rank, or data-parallel ranks", {}, kAside},
    {"trainer.precision", kText, "fp32", one_of("fp32 fp64"), "", "the type of weights and arithmetic"},
    {"trainer.accumulate", kInteger, "1", kCount, "batches", "what is added up before each update of the weights"},
    {"trainer.clip_norm", kReal, "", kAbove0, "",
     "gradients are scaled down to this L2 norm where theirs is larger"},
    {"trainer.seed", kInteger, "0", kAtLeast0, "", "decides initial weights, order of samples, split"},
    {"trainer.validate_every", kInteger, "1", kAtLeast0, "epochs", "from one validation to the next; 0 for none"},
    {"trainer.threads", kInteger, "0", kCountOr0, "threads",
     "what computes in each rank; 0 shares the node's cores out", {}, kAside},
    {"trainer.bucket_mb", kReal, "25", kAbove0, "MiB", "gradients that are averaged in one message"},

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

    {"snapshot.every_epochs", kInteger, "1", kAtLeast0, "epochs",
     "from one snapshot to the next; 0 for none; a run's end always writes one",
     yielding_to("snapshot.every_steps snapshot.every_minutes"), kAside},
    {"snapshot.every_steps", kInteger, "0", kAtLeast0, "steps", "the same; 0 for none", {}, kAside},
    {"snapshot.every_minutes", kReal, "0", kAtLeast0, "minutes", "the same; 0 for none", {}, kAside},
    {"snapshot.keep", kInteger, "3", kCountOr0, "snapshots", "the latest that stay; 0 for all", {}, kAside},

    {"observe.log_every", kInteger, "50", kAtLeast0, "steps",
     "from one logged loss to the next; 0 for none", {}, kAside},
    {"observe.tensorboard", kFlag, "true", {}, "", "write event files that TensorBoard shows", {}, kAside},

    {"cluster.name", kText, "", {}, "", "the system, as `lockstep profile ls` names it; by default the one that this is",
     {}, kAside},
    {"cluster.nodes", kInteger, "", kCount, "nodes", "what to ask the scheduler for", {}, kAside},
    {"cluster.time", kDuration, "", kSpan, "", "the job's limit; a run goes on after it in the next job", {}, kAside},
    {"cluster.account", kText, "", {}, "", "who pays", {}, kAside},
    {"cluster.partition", kText, "", {}, "", "by default the profile's", {}, kAside},
    {"cluster.qos", kText, "", {}, "", "by default the profile's", {}, kAside},
    {"cluster.setup", kTexts, "", {}, "", "lines of shell that each task runs first, inside the container", {}, kAside},
    {"cluster.modules", kTexts, "", {}, "", "what `module load` gets, instead of the profile's; [] for none", {}, kAside},
    {"cluster.conda", kText, "", {}, "", "a conda environment to activate, by path or name", {}, kAside},
    {"cluster.container", kText, "", {}, "", "the image that tasks run in", {}, kAside},
    {"cluster.binds", kTexts, "", {}, "", "what the container sees besides, \"DIR\" or \"DIR:INSIDE\"", {}, kAside},
    {"cluster.env", kTexts, "", {}, "", "variables, \"NAME=value\"", {}, kAside},
    {"cluster.sbatch", kTexts, "", {}, "", "further flags of sbatch", {}, kAside},
});
// clang-format on

std::string_view leaf_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

std::span<const SettingRow> schema() { return kRows; }

std::vector<const SettingRow*> rows_of(std::string_view key) {
  std::vector<const SettingRow*> rows;
  for (const auto& row : kRows) {
    if (row.key == key) rows.push_back(&row);
  }
  return rows;
}

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
  return std::find(takers.begin(), takers.end(), selected) != takers.end();
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
                                           : "a list of numbers");
  if (!row.unit.empty()) text.append(" of ").append(row.unit);
  if (!row.rule.wanted.empty()) text.append(", ").append(row.rule.wanted);
  return text;
}

std::vector<std::string> words(std::string_view list) {
  if (list.empty()) return {};
  return split(list, ' ');
}

}  // namespace lockstep
