// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command.h"
#include "lockstep/cluster/batch_script.h"
#include "lockstep/cluster/container_command.h"
#include "lockstep/cluster/job_plan.h"
#include "lockstep/cluster/job_wish.h"
#include "lockstep/cluster/profile_library.h"
#include "lockstep/cluster/submission.h"
#include "lockstep/cluster/sweep.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/recipe/builtin.h"
#include "lockstep/recipe/raw_setting.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

struct SubmitOptions {
  SubmitFlags flags;
  std::vector<Override> settings;  ///< From flags that stand for a setting.
  std::string cluster;
  std::string run_dir;
  std::vector<std::string> sweeps;
  int chain = 0;
  bool dry_run = false;
  bool json = false;
};

/// A job's settings, and the system that it is for.
struct Target {
  Recipe settings;
  Profile profile;
  std::string profile_word;  ///< What names the profile on a node.
  bool is_here = false;      ///< This is the system that the job is for.
};

fs::path this_program() { return fs::read_symlink("/proc/self/exe"); }

void check_request(const SubmitOptions& options) {
  if (options.flags.recipe.empty() == options.flags.program.empty()) {
    throw Error(ErrorKind::kUsage,
                options.flags.recipe.empty() ? "neither a recipe nor a program was given"
                                             : "both a recipe and a program were given, want one",
                "lockstep submit RECIPE --nodes N, or lockstep submit --nodes N -- python train.py");
  }
  if (options.chain < 0) {
    throw Error(ErrorKind::kUsage, "--chain is " + std::to_string(options.chain) + ", want 1 or more",
                "it is the number of jobs that the run may take, one after the other");
  }
  if (!options.sweeps.empty() && options.flags.recipe.empty()) {
    throw Error(ErrorKind::kUsage, "--sweep varies settings of a recipe, but a program was given",
                "submit the program once for each of its values");
  }
}

Target target_of(const SubmitOptions& options, const Context& context) {
  std::vector<Override> overrides;
  for (const auto& text : options.flags.sets) overrides.push_back(override_of(text));
  overrides.insert(overrides.end(), options.settings.begin(), options.settings.end());
  Target target{
      .settings = options.flags.recipe.empty()
                      ? Recipe::without_file(context.env, overrides)
                      : Recipe::load(recipe_file(options.flags.recipe, this_program()), context.env, overrides),
      .profile = {},
      .profile_word = {}};
  const ProfileLibrary library(context.env);
  const auto here = Surroundings::of_process(context.env);
  const std::string word = !options.cluster.empty()              ? options.cluster
                           : target.settings.has("cluster.name") ? target.settings.text("cluster.name")
                                                                 : "auto";
  target.profile = library.chosen(word, here);
  target.is_here = word == "auto" || library.detected(here).name == target.profile.name;
  const bool is_file = word.find('/') != std::string::npos || word.ends_with(".toml");
  target.profile_word = is_file ? fs::absolute(word).string() : target.profile.name;
  return target;
}

/// LOCKSTEP_PROFILE_PATH as it holds in any folder.
std::string absolute_profile_path(const Environment& env) {
  std::vector<std::string> entries;
  for (const auto& entry : split(env.get("LOCKSTEP_PROFILE_PATH").value_or(""), ':')) {
    if (!entry.empty()) entries.push_back(fs::absolute(entry).string());
  }
  return joined(entries, ":");
}

JobPlaces places_of(const SubmitOptions& options, const Target& target, const JobWish& wish, const Context& context) {
  JobPlaces places{.run_dir = {},
                   .work_dir = fs::current_path(),
                   .lockstep = this_program(),
                   .profile = target.profile_word,
                   .profile_path = absolute_profile_path(context.env)};
  if (!options.run_dir.empty()) {
    places.run_dir = fs::absolute(options.run_dir).lexically_normal();
    return places;
  }
  auto variables = context.env.all();
  variables["LOCKSTEP_RUNS"] = runs_folder(target.profile, wish.queue.account, context.env).string();
  places.run_dir = run_dir_at(wish.program.name, std::chrono::system_clock::now(), Environment(std::move(variables)));
  return places;
}

/// `lockstep train` with what was said here, so that the tasks find the same numbers.
std::vector<std::string> train_command(const SubmitOptions& options, const Target& target, const JobWish& wish) {
  const auto recipe = fs::absolute(recipe_file(options.flags.recipe, this_program())).lexically_normal();
  std::vector<std::string> command = {wish.places.lockstep.string(), "train", recipe.string(), "--run-dir",
                                      wish.places.run_dir.string()};
  for (const auto& text : options.flags.sets) command.insert(command.end(), {"--set", text});
  if (target.settings.has("cluster.nodes")) {
    command.insert(command.end(), {"--set", "cluster.nodes=" + std::to_string(wish.shape.nodes)});
  }
  if (wish.shape.devices.value_or(0) > 0) {
    command.insert(command.end(), {"--devices", std::to_string(*wish.shape.devices)});
  }
  return command;
}

void check_image(const JobPlan& plan, const Recipe& settings) {
  std::error_code ignored;
  const auto& image = plan.container.image;
  if (image.empty() || !is_image_file(image, plan.container.runtime) || fs::exists(image, ignored)) return;
  throw Error(ErrorKind::kEnvironment,
              "there is no container image '" + image + "' (" + settings.origin("cluster.container").where + ")",
              "check the path; the site's own image is in `lockstep profile show " + plan.cluster + "`");
}

JobPlan plan_of(const SubmitOptions& options, const Target& target, const Context& context) {
  JobWish wish = job_wish(target.settings, options.flags, target.profile, context.env);
  wish.queue.chain = options.chain;
  wish.places = places_of(options, target, wish, context);
  if (wish.program.is_recipe) {
    wish.program.command = train_command(options, target, wish);
    if (!wish.software.container.empty()) {
      wish.software.binds.push_back(fs::path(wish.program.command[2]).parent_path().string());
    }
  } else if (target.is_here && wish.software.container.empty() && wish.software.setup.empty()) {
    wish.program.command = with_absolute_program(wish.program.command, wish.software.conda, context.env);
  }
  return job_plan(wish, target.profile);
}

nlohmann::json json_of(const JobRecord& record, const JobPlan& plan) {
  return {{"schema", 1},
          {"job", record.job},
          {"run_dir", plan.places.run_dir.string()},
          {"script", script_path(plan).string()},
          {"log", log_path(plan).string()},
          {"cluster", plan.cluster},
          {"nodes", record.nodes},
          {"tasks", record.tasks}};
}

/// One job for each trial of a sweep, in folders side by side; else the one.
std::vector<JobPlan> plans_of(const SubmitOptions& options, const Context& context) {
  std::vector<JobPlan> plans;
  std::string base = options.run_dir;
  if (!options.sweeps.empty() && base.empty()) {
    base = plan_of(options, target_of(options, context), context).places.run_dir.string();
  }
  for (const auto& trial : trials_of(options.sweeps)) {
    SubmitOptions one = options;
    one.flags.sets.insert(one.flags.sets.end(), trial.sets.begin(), trial.sets.end());
    if (!options.sweeps.empty()) one.run_dir = (fs::path(base) / trial.name).string();
    const Target target = target_of(one, context);
    if (plans.empty()) {
      for (const auto& note : target.settings.notes()) context.log.info(note);
    }
    plans.push_back(plan_of(one, target, context));
    if (target.is_here || !options.dry_run) check_image(plans.back(), target.settings);
  }
  return plans;
}

void submit(SubmitOptions& options, const Context& context) {
  options.flags.program = context.program;
  check_request(options);
  const auto plans = plans_of(options, context);
  const auto& first = plans.front();
  if (first.size.devices == 0 && first.size.tasks == 1 && !options.flags.tasks && !first.program.is_recipe) {
    context.log.info("no devices are asked for: " + first.cluster +
                     " knows none, so each node runs one task; --devices N asks for N");
  }
  auto jobs = nlohmann::json::array();
  for (const auto& plan : plans) {
    if (options.dry_run) {
      print_text(batch_script(plan));
      continue;
    }
    const auto record = submit_job(plan, context.env);
    jobs.push_back(json_of(record, plan));
    if (!options.json) print_text("job " + record.job + "\nrun folder " + plan.places.run_dir.string() + "\n");
  }
  if (!options.json || options.dry_run) return;
  print_json(options.sweeps.empty() ? jobs.front() : nlohmann::json{{"schema", 1}, {"trials", jobs}});
}

/// A flag that stands for a setting: it is laid over the recipe, and errors name it.
void add_setting(CLI::App& command, std::vector<Override>& settings, const std::string& flag, const std::string& key,
                 const std::string& help) {
  command.add_option_function<std::string>(
      flag,
      [&settings, flag, key](const std::string& value) {
        settings.push_back({key, toml_quoted(value), {SettingSource::kFlag, flag}});
      },
      help);
}

/// The same for a whole number, and for a time, which Slurm would read in minutes without colons.
void add_numbers(CLI::App& command, std::vector<Override>& settings) {
  command
      .add_option_function<std::string>(
          "--nodes",
          [&settings](const std::string& value) {
            settings.push_back({"cluster.nodes", value, {SettingSource::kFlag, "--nodes"}});
          },
          "Nodes to ask for")
      ->type_name("N");
  command
      .add_option_function<std::string>(
          "--time",
          [&settings](const std::string& value) {
            if (value.find(':') == std::string::npos) {
              throw Error(ErrorKind::kUsage, "--time is '" + value + "', want HH:MM:SS or D-HH:MM:SS",
                          "minutes and seconds look alike without colons");
            }
            settings.push_back({"cluster.time", toml_quoted(value), {SettingSource::kFlag, "--time"}});
          },
          "The job's limit")
      ->type_name("HH:MM:SS");
}

/// Flags that may be repeated and together are one list.
void add_list(CLI::App& command, std::vector<Override>& settings, const std::string& flag, const std::string& key,
              const std::string& help) {
  command
      .add_option_function<std::vector<std::string>>(
          flag,
          [&settings, flag, key](const std::vector<std::string>& values) {
            std::vector<std::string> quoted;
            for (const auto& value : values) quoted.push_back(toml_quoted(value));
            settings.push_back({key, "[" + joined(quoted, ", ") + "]", {SettingSource::kFlag, flag}});
          },
          help)
      ->allow_extra_args(false);
}

}  // namespace

void add_submit(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("submit", "Submit a recipe, or any program: submit --nodes N -- CMD…");
  auto options = std::make_shared<SubmitOptions>();
  auto& flags = options->flags;
  command->add_option("RECIPE", flags.recipe, "A TOML file, or the name of a built-in recipe");
  command->add_option("--set", flags.sets, "Set a setting: table.key=value; may be repeated")->allow_extra_args(false);
  add_numbers(*command, options->settings);
  command->add_option("--devices", flags.devices, "Devices of each node; 0 for none")->type_name("N");
  command->add_option("--tasks-per-node", flags.tasks, "By default one for each device")->type_name("N");
  command->add_option("--cores-per-task", flags.cores_per_task, "By default the device's share")->type_name("N");
  command->add_option("--cluster", options->cluster, "A profile's name or file; auto finds it")->type_name("NAME");
  add_setting(*command, options->settings, "--account", "cluster.account", "Who pays");
  add_setting(*command, options->settings, "--partition", "cluster.partition", "By default the profile's");
  add_setting(*command, options->settings, "--qos", "cluster.qos", "By default the profile's");
  add_setting(*command, options->settings, "--container", "cluster.container", "The image that tasks run in");
  add_setting(*command, options->settings, "--conda", "cluster.conda", "A conda environment to activate");
  add_list(*command, options->settings, "--bind", "cluster.binds", "What the container sees besides: DIR[:INSIDE]");
  add_list(*command, options->settings, "--env", "cluster.env", "A variable of the job: NAME=value");
  add_list(*command, options->settings, "--setup", "cluster.setup", "A line of shell that each task runs first");
  command->add_option("--sbatch", flags.sbatch, "A further flag of sbatch: --sbatch=--exclusive")
      ->allow_extra_args(false);
  command->add_option("--name", flags.name, "The job's name");
  command->add_option("--run-dir", options->run_dir, "The run's folder")->type_name("DIR");
  command->add_option("--chain", options->chain, "Jobs that the run may take, one after the other")->type_name("K");
  command->add_option("--sweep", options->sweeps, "Submit a job for each value of a setting: table.key=v,w")
      ->allow_extra_args(false);
  command->add_flag("--dry-run", options->dry_run, "Print the batch script, and create nothing");
  command->add_flag("--json", options->json, "As one JSON object on standard output");
  context.program_takers.push_back(command);
  command->callback([&context, options] { submit(*options, context); });
}

}  // namespace lockstep::cli
