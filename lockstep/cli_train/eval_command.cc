// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/eval_command.h"

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli_data/recipe_settings.h"
#include "lockstep/cli_train/python_start.h"
#include "lockstep/cli_train/rank_setup.h"
#include "lockstep/cli_train/recipe_data.h"
#include "lockstep/cli_train/recipe_training.h"
#include "lockstep/format/snapshot/snapshot_folder.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/snapshot/snapshot.h"
#include "lockstep/train/evaluation.h"

namespace lockstep {
namespace {

/// A run's network with its weights, and the samples to evaluate. The other members point into `data` and `recipe`.
struct Subject {
  Recipe recipe;
  std::unique_ptr<RecipeData> data{};
  std::unique_ptr<NetworkTask> task{};
  std::unique_ptr<Loader> loader{};
  std::filesystem::path snapshot{};
  std::string split{};  ///< For people, the part or "all".
  Precision precision = Precision::kFp32;
};

// Returns the recipe of the run, with the number of ranks of this start instead of the training's.
Recipe recipe_of_run(const EvalRequest& request, const Placement& placement, const Environment& env) {
  auto overrides = overrides_of(request.sets);
  const Origin origin{SettingSource::kFlag, "this start"};
  if (!request.data.empty()) overrides.push_back({"data.path", request.data, {SettingSource::kFlag, "--data"}});
  overrides.push_back({"trainer.devices", std::to_string(placement.local_world), origin});
  overrides.push_back({"cluster.nodes", std::to_string(placement.nodes), origin});
  overrides.push_back({"trainer.strategy", "auto", origin});
  return Recipe::load(RunFolder::open(request.run).recipe(), env, overrides);
}

std::filesystem::path wanted_snapshot(const EvalRequest& request, const Log& log) {
  const auto snapshots = RunFolder::open(request.run).snapshots();
  const auto best = snapshots / "best";
  const bool is_auto = request.snapshot == "auto";
  if (request.snapshot == "best" || (is_auto && std::filesystem::exists(best))) {
    verify_snapshot(best);
    return std::filesystem::canonical(best);
  }
  if (!is_auto && request.snapshot != "latest") {
    verify_snapshot(request.snapshot);
    return request.snapshot;
  }
  const auto on_skip = [&](const SnapshotEntry& entry, const std::string& reason) {
    log.warning("skipped " + entry.path.string() + ": " + reason);
  };
  const auto newest = newest_whole_snapshot(snapshots, on_skip, state_fault);
  if (newest) return newest->path;
  throw Error(ErrorKind::kData, "'" + snapshots.string() + "' holds no whole snapshot",
              "`lockstep snapshot ls` shows what is there");
}

// Returns the schema of the training data, from the snapshot. Older snapshots have no schema. Then it is read from the
// run's own data.
DataSchema trained_schema(const std::filesystem::path& snapshot, const Recipe& own, Group& group) {
  std::string text;
  on_rank_zero(group, [&] { text = saved_data(snapshot); });
  text = group.broadcast_text(text);
  if (!text.empty()) return parsed_data_schema(text);
  try {
    if (own.text("data.kind") == "csv") {
      // In the version that wrote such snapshots, a table was scaled by the mean of all its rows.
      auto settings = data_settings_of(own);
      settings.split.reset();
      return open_data_sets(settings).schema;
    }
    RecipeData data(own, group);
    data.setup();
    return data.sets().schema;
  } catch (const Error& error) {
    throw Error(ErrorKind::kData,
                snapshot.string() +
                    " does not say what data it was trained on, and the run's own data cannot be opened: " +
                    std::string(error.fact()),
                "put the training data back, or train again");
  }
}

// True if the data are not those that the run was trained on.
bool is_new_data(const Recipe& recipe, const Recipe& own) {
  if (recipe.text("data.kind") != own.text("data.kind")) return true;
  return recipe.has("data.path") && (!own.has("data.path") || recipe.path("data.path") != own.path("data.path"));
}

// Returns the recipe with which the run was trained.
Recipe own_recipe(const EvalRequest& request, const Environment& env) {
  auto values = env.all();
  values.erase("LOCKSTEP_SET");
  return Recipe::load(RunFolder::open(request.run).recipe(), Environment(std::move(values)));
}

struct SubjectRequest {
  const EvalRequest& request;
  const Recipe& own;  ///< The recipe that the run was trained with.
  PythonHost* python = nullptr;
  bool predicts = false;
};

Subject subject_of(const SubjectRequest& wanted, Recipe recipe, Group& group) {
  const auto& request = wanted.request;
  const auto& own = wanted.own;
  const bool predicts = wanted.predicts;
  Subject subject{.recipe = std::move(recipe)};
  std::string snapshot;
  on_rank_zero(group, [&] { snapshot = wanted_snapshot(request, rank_log(group.placement())).string(); });
  subject.snapshot = group.broadcast_text(snapshot);
  const auto schema = trained_schema(subject.snapshot, own, group);
  subject.data = std::make_unique<RecipeData>(subject.recipe, group);
  const bool is_new = is_new_data(subject.recipe, own);
  subject.split = request.split;
  if (subject.split.empty()) subject.split = is_new ? "all" : "validation";
  subject.data->setup_for_model(schema, {.part = {.split = request.split, .is_new = is_new},
                                         .needs_labels = !predicts || !is_new,
                                         .can_draw = !predicts || !is_new});
  subject.precision = precision_named(subject.recipe.text("trainer.precision"));
  subject.task = task_of(subject.recipe, subject.data->sets(), group.device(), {.python = wanted.python});
  restore_weights(subject.snapshot, *subject.task);
  if (!group.device().is_cpu()) subject.task->to(group.device().device);
  subject.loader = subject.data->model_loader({group.rank(), group.world()});
  if (group.is_main()) {
    for (const auto& note : subject.data->sets().notes) rank_log(group.placement()).info(note);
  }
  return subject;
}

// Returns one line for each sample, with its name, the numbers of its row, and the index of the largest.
std::string csv_lines(const SampleSource& source, std::int64_t first, const at::Tensor& rows) {
  const auto flat = rows.reshape({rows.size(0), -1}).contiguous();
  const auto* numbers = flat.const_data_ptr<double>();
  std::string text;
  for (std::int64_t row = 0; row < flat.size(0); ++row) {
    std::string name = source.name_of(first + row);
    for (std::size_t at = 0; (at = name.find('"', at)) != std::string::npos; at += 2) name.insert(at, 1, '"');
    text += '"' + name + '"';
    const auto* begin = numbers + row * flat.size(1);
    // If there are no classes, the single number is the prediction.
    if (flat.size(1) > 1) {
      text += ',';
      text += std::to_string(std::max_element(begin, begin + flat.size(1)) - begin);
    }
    for (std::int64_t column = 0; column < flat.size(1); ++column) {
      text.append(",").append(significant(begin[column], 9));
    }
    text += "\n";
  }
  return text;
}

std::string csv_header(const std::vector<std::string>& classes, std::int64_t columns) {
  std::vector<std::string> names = {"sample", "predicted"};
  for (std::int64_t i = 0; columns > 1 && i < columns; ++i) {
    const bool is_named = static_cast<std::size_t>(i) < classes.size();
    names.push_back(is_named ? csv_cell(classes[static_cast<std::size_t>(i)]) : std::to_string(i));
  }
  return joined(names, ",") + "\n";
}

}  // namespace

int run_eval(const EvalRequest& request, const TrainerProcess& process) {
  const auto& env = process.env;
  return with_placement(env, [&](const Placement& placement) {
    const Recipe recipe = recipe_of_run(request, placement, env);
    become_python_if_needed(recipe, process);
    const Recipe own = own_recipe(request, env);
    auto group = join_ranks(recipe, placement, env);
    auto subject = subject_of({request, own, process.python, /*predicts=*/false}, recipe, group);
    const auto metrics = evaluated(*subject.task, *subject.loader, group, subject.precision);
    if (!group.is_main()) return 0;
    std::string line;
    for (const auto& [name, value] : metrics) line += name + " " + nlohmann::json(value).dump() + " · ";
    const auto samples = subject.loader->source().size();
    rank_log(placement).info(line + std::to_string(samples) + " samples of " + subject.split + " · " +
                             subject.snapshot.string());
    if (request.json) {
      const nlohmann::ordered_json object = {{"schema", 1},
                                             {"run_dir", request.run},
                                             {"snapshot", subject.snapshot.string()},
                                             {"split", subject.split},
                                             {"samples", samples},
                                             {"metrics", metrics}};
      std::cout << json_text(object) << std::endl;
    }
    return 0;
  });
}

int run_predict(const EvalRequest& request, const TrainerProcess& process) {
  const auto& env = process.env;
  return with_placement(env, [&](const Placement& placement) {
    const Recipe recipe = recipe_of_run(request, placement, env);
    become_python_if_needed(recipe, process);
    const Recipe own = own_recipe(request, env);
    auto group = join_ranks(recipe, placement, env);
    auto subject = subject_of({request, own, process.python, /*predicts=*/true}, recipe, group);
    std::string text;
    predict(*subject.task, *subject.loader, group, subject.precision, [&](std::int64_t first, const at::Tensor& rows) {
      if (first == 0) text = csv_header(subject.data->sets().class_names, rows[0].numel());
      text += csv_lines(subject.loader->source(), first, rows);
      if (!request.out.empty()) return;
      std::cout << text;
      text.clear();
    });
    on_rank_zero(group, [&] {
      if (!request.out.empty()) write_whole(request.out, text);
    });
    if (group.is_main() && request.json) {
      const nlohmann::ordered_json object = {
          {"schema", 1},
          {"run_dir", request.run},
          {"snapshot", subject.snapshot.string()},
          {"samples", subject.loader->source().size()},
          {"out", request.out.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(request.out)}};
      std::cout << json_text(object) << std::endl;
    }
    return 0;
  });
}

}  // namespace lockstep
