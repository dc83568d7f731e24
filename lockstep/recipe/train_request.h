// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// What `train` was asked for on the command line, by `lockstep` and by the `lockstep-train` that it hands over to.
struct TrainRequest {
  std::string recipe;
  std::vector<std::string> sets;  ///< "a.b=v"
  int devices = 0;                ///< Ranks of a node; 0 leaves it to the recipe.
  bool devices_given = false;
  std::string resume = "auto";  ///< auto, none, or a snapshot's or run's path.
  std::string run_dir;          ///< Empty: named by recipe and job, or time.
  std::string find;             ///< lr or batch: what to find instead of training; empty to train.
  bool dry_run = false;
  bool json = false;
};

/// Binds the options to a CLI11 sub-command (a template, so that nothing here depends on the parser).
template <typename App>
void bind_options(App& app, TrainRequest& request) {
  app.add_option("recipe", request.recipe, "The recipe: a TOML file, or the name of a built-in one")->required();
  app.add_option("--set", request.sets, "Overrides a setting: table.key=value; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--devices", request.devices, "Ranks on each node")->each([&](const auto&) {
    request.devices_given = true;
  });
  app.add_option("--resume", request.resume, "auto, none, or the path of a snapshot or a run");
  app.add_option("--run-dir", request.run_dir, "The run's folder");
  app.add_option("--find", request.find, "lr or batch: finds what to set by short trainings that leave nothing behind");
  app.add_flag("--dry-run", request.dry_run, "Says what would be trained, and creates nothing");
  app.add_flag("--json", request.json, "Ends with one JSON object on standard output");
}

/// The recipe that the request means, with its overrides. `program` is this executable: built-in recipes lie near it.
///
/// Throws: as Recipe::load; Error(kUsage) where --devices is below 1, or --set has no "=".
Recipe recipe_of(const TrainRequest& request, const Environment& env, const std::filesystem::path& program);

/// The request as arguments, with `run_dir` in place of its own.
std::vector<std::string> arguments_of(const TrainRequest& request, const std::string& run_dir);

/// Every setting as "key = value", by key, without origins: for comparing ranks.
std::string settings_text(const Recipe& recipe);

}  // namespace lockstep
