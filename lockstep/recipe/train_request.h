// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// The command line of `train`, which `lockstep` passes on to `lockstep-train`.
struct TrainRequest {
  std::string recipe;
  std::vector<std::string> sets;  ///< "a.b=v"
  int devices = 0;                ///< Ranks of a node. 0 leaves it to the recipe.
  bool devices_given = false;
  std::string resume = "auto";  ///< auto, none, or a snapshot's or run's path.
  std::string run_dir;          ///< The run's folder. If empty, it is named by recipe, and by job or time.
  std::string find;             ///< lr or batch, to find one of them instead of training. Empty to train.
  bool dry_run = false;
  bool json = false;
};

/// Adds the options to a CLI11 sub-command. It is a template, so that this header does not depend on CLI11.
template <typename App>
void bind_options(App& app, TrainRequest& request) {
  app.add_option("RECIPE", request.recipe, "The recipe: a TOML file, or the name of a built-in recipe")->required();
  app.add_option("--set", request.sets, "Set one setting; may be repeated. `lockstep recipe ls` lists every setting")
      ->type_name("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--devices", request.devices,
                 "Ranks to start on this machine; in a job, ranks on each node (default: one per GPU)")
      ->type_name("N")
      ->each([&](const auto&) { request.devices_given = true; });
  app.add_option("--resume", request.resume,
                 "auto (the default) continues from the latest snapshot in the run's folder, if there is one; none "
                 "starts from scratch, and puts an earlier run in that folder aside; the path of a snapshot or a run "
                 "starts from that snapshot")
      ->type_name("FROM");
  app.add_option(
         "--run-dir", request.run_dir,
         "The run's folder; a run that is in it continues (default: a new folder named by recipe and time, or by job)")
      ->type_name("DIR");
  app.add_option("--find", request.find,
                 "Find a learning rate (lr) or the largest batch (batch) by short trainings; nothing is saved")
      ->type_name("lr|batch");
  app.add_flag("--dry-run", request.dry_run,
               "Print the number of ranks, the run's folder and the recipe with every value, and create nothing");
  app.add_flag("--json", request.json, "End with one JSON object on standard output");
}

/// Returns the recipe of the request, with its overrides. `program` is the path of this executable. Built-in recipes
/// are found near it.
///
/// Throws: as Recipe::load; Error(kUsage) if --devices is below 1, or --set has no "=".
Recipe recipe_of(const TrainRequest& request, const Environment& env, const std::filesystem::path& program);

/// Returns the request as command-line arguments, with `run_dir` instead of the request's run folder.
std::vector<std::string> arguments_of(const TrainRequest& request, const std::string& run_dir);

/// Returns every setting as "key = value", sorted by key, without origins. Ranks compare it.
std::string settings_text(const Recipe& recipe);

}  // namespace lockstep
