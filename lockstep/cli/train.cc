// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/doctor.h"
#include "lockstep/cli/hand_over.h"
#include "lockstep/cli/help/help_formatter.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/topology.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/recipe/train_request.h"

namespace lockstep::cli {
namespace {

/// The role of this process: a rank of an existing job, or the launcher of `local_ranks` ranks.
struct Part {
  Placement placement;
  int local_ranks = 1;
};

// Returns the number of ranks to start: what the recipe says, or else one for each GPU that this process sees.
int local_ranks_of(const Recipe& recipe, const Environment& env) {
  if (recipe.has("trainer.devices")) return static_cast<int>(recipe.integer("trainer.devices"));
  if (recipe.text("trainer.accelerator") == "cpu" || recipe.text("trainer.strategy") == "single") return 1;
  const auto there = static_cast<int>(Topology().gpus().size());
  return std::max(1, std::min(there, shown_devices(env).value_or(there)));
}

Part part_of_run(const Recipe& recipe, const Environment& env) {
  Part part{.placement = placement_from(env)};
  const bool is_alone = part.placement.world == 1;
  const bool has_copies = recipe.text("trainer.strategy") == "dp";
  if (is_alone && !has_copies) part.local_ranks = local_ranks_of(recipe, env);
  if (part.local_ranks > 1 && recipe.text("trainer.strategy") == "single") {
    throw Error(ErrorKind::kRecipe,
                "trainer.strategy is single, but trainer.devices (" + recipe.origin("trainer.devices").where + ") is " +
                    std::to_string(part.local_ranks),
                "set trainer.strategy = \"ddp\", or one device");
  }
  const char* const least_key = recipe.has("cluster.min_nodes") ? "cluster.min_nodes" : "cluster.nodes";
  if (is_alone && recipe.has(least_key) && recipe.integer(least_key) > 1) {
    throw Error(ErrorKind::kEnvironment,
                least_key + (" (" + recipe.origin(least_key).where) + ") is " +
                    std::to_string(recipe.integer(least_key)) + ", but this is one process on one node",
                "start it with srun on as many nodes, or leave cluster.nodes out");
  }
  return part;
}

/// Returns the run folder. Empty if rank 0 must choose its name after the ranks have met.
std::filesystem::path run_dir_of(const TrainRequest& request, const Recipe& recipe, const Part& part,
                                 const Environment& env) {
  if (!request.run_dir.empty()) return std::filesystem::absolute(request.run_dir);
  if (!part.placement.run.empty())
    return std::filesystem::absolute(run_dir_of_job(recipe.name(), part.placement.run, env));
  if (part.placement.world > 1) return {};
  return std::filesystem::absolute(run_dir_at(recipe.name(), std::chrono::system_clock::now(), env));
}

/// True if the recipe's limit of time is not longer than the one with which the run ended.
bool is_time_over(const Recipe& recipe, const RunFolder& folder) {
  if (!recipe.has("trainer.max_time")) return false;
  const Recipe before = Recipe::load(folder.recipe(), {});
  return before.has("trainer.max_time") && recipe.real("trainer.max_time") <= before.real("trainer.max_time");
}

/// Returns the result of a finished run, if the recipe asks for no more than it has done.
std::optional<std::string> result_already_there(const TrainRequest& request, const Recipe& recipe,
                                                const std::filesystem::path& run_dir) {
  if (run_dir.empty() || request.resume != "auto" || ::access((run_dir / "result.json").c_str(), F_OK) != 0)
    return std::nullopt;
  const auto folder = RunFolder::open(run_dir);
  const auto text = folder.result();
  if (!text) return std::nullopt;
  const auto object = nlohmann::json::parse(*text);
  const auto reached = [&](const char* key, const char* limit) {
    return recipe.has(limit) && object.value(key, std::int64_t{0}) >= recipe.integer(limit);
  };
  const auto stopped_by = object.value("stopped_by", std::string());
  if (stopped_by == "max_time" && is_time_over(recipe, folder)) return text;
  const bool by_limit = stopped_by.starts_with("max_");
  if (by_limit && !reached("epochs", "trainer.max_epochs") && !reached("steps", "trainer.max_steps"))
    return std::nullopt;
  return text;
}

// Checks that the files exist which the trainer will read first. The trainer itself reads and checks them.
void require_paths(const Recipe& recipe) {
  for (const char* key : {"data.path", "model.weights"}) {
    if (!recipe.has(key)) continue;
    const auto path = recipe.path(key);
    if (::access(path.c_str(), R_OK) == 0) continue;
    throw Error(
        ErrorKind::kIo, std::string(key) + " (" + recipe.origin(key).where + "): " + system_fact("open", path, errno),
        "set it to the data's path, relative to the recipe's folder, or with --set " + std::string(key) + "=PATH");
  }
}

void print_plan(const TrainRequest& request, const Recipe& recipe, const Part& part,
                const std::filesystem::path& run_dir) {
  const int world = part.placement.world * part.local_ranks;
  if (request.json) {
    print_json({{"recipe", recipe.name()},
                {"world", world},
                {"source", part.placement.source},
                {"run_dir", run_dir.empty() ? nlohmann::json(nullptr) : nlohmann::json(run_dir.string())}});
    return;
  }
  print_text("# " + recipe.name() + " on " + counted(world, "rank") + " (" + part.placement.source + "), run folder " +
             (run_dir.empty() ? "named by rank 0" : run_dir.string()) + "\n" + recipe.to_toml());
}

std::optional<HealingLimits> healing_of(const Recipe& recipe) {
  if (recipe.text("trainer.heal") == "off") return std::nullopt;
  const std::chrono::duration<double> window(recipe.real("trainer.heal_window"));
  return HealingLimits{.most = static_cast<int>(recipe.integer("trainer.heal_limit")),
                       .window = std::chrono::ceil<std::chrono::milliseconds>(window)};
}

/// Runs the quick checks of `doctor`, which stop a run that would fail or be slow without a message. Devices that the
/// run does not use are not checked, and neither is the placement, which was accepted just before.
bool is_fit_to_train(const Recipe& recipe, const Context& context) {
  const bool uses_devices = !recipe.has("trainer.accelerator") || recipe.text("trainer.accelerator") != "cpu";
  QuickLook look{.concerns = [=](const std::string& code) {
    return !code.starts_with("layout-") && (uses_devices || !code.starts_with("devices-"));
  }};
  if (recipe.has("cluster.name")) look.cluster = recipe.text("cluster.name");
  return !tell_quick_findings(look, context.env, context.log);
}

int train(const TrainRequest& request, const Context& context) {
  const Recipe recipe = recipe_of(request, context.env, this_program());
  const Part part = part_of_run(recipe, context.env);
  const auto run_dir = run_dir_of(request, recipe, part, context.env);
  if (part.placement.is_main()) {
    for (const auto& note : recipe.notes()) context.log.info(note);
  }
  if (request.dry_run) {
    require_paths(recipe);
    print_plan(request, recipe, part, run_dir);
    return 0;
  }
  std::vector<std::string> arguments = {"train"};
  if (!request.find.empty()) {
    const auto own = arguments_of(request, {});
    arguments.insert(arguments.end(), own.begin(), own.end());
    return hand_over({.arguments = arguments, .ranks = part.local_ranks}, context);
  }
  if (const auto result = result_already_there(request, recipe, run_dir)) {
    if (!part.placement.is_main()) return 0;
    context.log.info("the run in " + run_dir.string() + " is finished; --resume none starts from scratch");
    if (request.json) print_text(*result + "\n");
    return 0;
  }
  if (!is_fit_to_train(recipe, context)) return exit_code(ErrorKind::kEnvironment);
  const auto own = arguments_of(request, run_dir.string());
  arguments.insert(arguments.end(), own.begin(), own.end());
  // Rank 0 holds the state of all ranks.
  const bool holds = recipe.integer("snapshot.in_memory") > 0 && part.placement.is_main();
  const bool is_task = part.placement.world > 1;
  const bool supervises = part.local_ranks > 1 || (holds && !is_task);
  Training training{.arguments = std::move(arguments), .ranks = part.local_ranks};
  if (supervises) training.logs = RunFolder::create(run_dir).logs();
  if (part.local_ranks > 1) training.healing = healing_of(recipe);
  return holds ? hand_over_and_hold(training, is_task, context) : hand_over(training, context);
}

}  // namespace

void add_train(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("train", "Train a recipe, on one rank or on every rank of a job");
  auto request = std::make_shared<TrainRequest>();
  bind_options(*command, *request);
  const auto columns = static_cast<std::size_t>(columns_of(context.env));
  command->footer(
      examples_section(
          {{"lockstep train digits --devices 2 --set optimizer.lr=0.05", "Start two ranks on this machine and train."},
           {"lockstep train mnist --set data.path=/data/mnist --run-dir runs/mnist-1",
            "Train with the data that `lockstep data fetch mnist --to /data/mnist` downloads. After a stop, the same "
            "command continues the run. Add --resume=none to start from scratch."}},
          columns) +
      "\nSettings that most runs set:\n" + common_settings_table(columns));
  command->callback([&context, request] { context.exit_code = train(*request, context); });
}

}  // namespace lockstep::cli
