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
  if (recipe.has("data.window")) settings.text.window = recipe.integer("data.window");
  if (recipe.has("data.mask_share")) settings.text.share = recipe.real("data.mask_share");
  if (recipe.has("data.label")) settings.csv.label = recipe.text("data.label");
  return settings;
}

}  // namespace lockstep
