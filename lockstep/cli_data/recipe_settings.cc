// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_data/recipe_settings.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/environment.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/python_program.h"

namespace lockstep {
namespace {

/// Returns the settings of [data.args] as a JSON object. A table in them becomes an object too.
std::string data_arguments(const Recipe& recipe) {
  constexpr std::string_view kTable = "data.args.";
  auto all = nlohmann::json::object();
  for (const auto& [key, setting] : recipe.settings()) {
    if (!key.starts_with(kTable)) continue;
    auto* place = &all;
    for (const auto& word : split(std::string_view(key).substr(kTable.size()), '.')) place = &(*place)[word];
    std::visit([&](const auto& value) { *place = value; }, setting.value);
  }
  return all.dump();
}

PythonData python_data_of(const Recipe& recipe, const PythonName& name) {
  PythonData data{.python = users_python(Environment::of_process()),
                  .host = python_host_folder(),
                  .source = name.source,
                  .function = name.object,
                  .arguments = data_arguments(recipe)};
  if (const auto collate = recipe.python_name("data.collate")) {
    data.collate_source = collate->source;
    data.collate = collate->object;
  }
  if (recipe.has("data.samples")) data.samples = recipe.integer("data.samples");
  if (recipe.has("data.eval_samples")) data.eval_samples = recipe.integer("data.eval_samples");
  if (recipe.integer("data.workers") > 0) data.workers = static_cast<int>(recipe.integer("data.workers"));
  return data;
}

}  // namespace

DataSettings data_settings_of(const Recipe& recipe) {
  DataSettings settings;
  settings.kind = recipe.text("data.kind");
  if (const auto name = recipe.python_name("data.kind")) {
    settings.kind = "python";
    settings.python = python_data_of(recipe, *name);
    settings.path = name->source + ":" + name->object;  // For messages.
  }
  if (recipe.has("data.path")) settings.path = recipe.path("data.path");
  settings.seed = static_cast<std::uint64_t>(recipe.integer("trainer.seed"));
  if (recipe.has("data.split")) settings.split = recipe.real("data.split");
  if (recipe.has("data.transforms")) settings.transforms = recipe.texts("data.transforms");
  if (recipe.has("data.eval_transforms")) settings.eval_transforms = recipe.texts("data.eval_transforms");
  if (recipe.has("data.strict")) settings.folder.is_strict = recipe.flag("data.strict");
  if (recipe.has("data.by_content")) settings.folder.by_content = recipe.flag("data.by_content");
  if (recipe.has("data.input")) settings.hdf5.input = recipe.text("data.input");
  if (recipe.has("data.target")) settings.hdf5.target = recipe.text("data.target");
  if (recipe.has("data.window")) settings.text.window = recipe.integer("data.window");
  if (recipe.has("data.mask_share")) settings.text.share = recipe.real("data.mask_share");
  if (recipe.has("data.label")) settings.csv.label = recipe.text("data.label");
  if (recipe.has("data.regression")) settings.csv.is_regression = recipe.flag("data.regression");
  return settings;
}

}  // namespace lockstep
