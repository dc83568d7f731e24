// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_data/recipe_settings.h"

namespace lockstep {

DataSettings data_settings_of(const Recipe& recipe) {
  DataSettings settings;
  settings.kind = recipe.text("data.kind");
  settings.path = recipe.path("data.path");
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
