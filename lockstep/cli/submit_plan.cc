// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/submit_plan.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/hand_over.h"
#include "lockstep/cluster/container_command.h"
#include "lockstep/cluster/site.h"
#include "lockstep/cluster/sweep.h"
#include "lockstep/cluster/trainer_build.h"
#include "lockstep/launch/process.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/recipe/builtin.h"
#include "lockstep/recipe/raw_setting.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// A job's settings, and the system that it is for.
struct Target {
  Recipe settings;
  Profile profile;
  std::string profile_word;  ///< What names the profile on a node.
  bool is_here = false;      ///< This is the system that the job is for.
};

[[noreturn]] void refuse(const std::string& fact, const std::string& hint) {
  throw Error(ErrorKind::kUsage, fact, hint);
}

void check_request(const SubmitOptions& options) {
  const bool has_recipe = !options.flags.recipe.empty();
  const bool has_program = !options.flags.program.empty();
  if (has_recipe && has_program) {
    refuse("both a recipe and a program were given, want one",
           "lockstep submit RECIPE --nodes N, or lockstep submit --nodes N -- python train.py");
  }
  if (options.is.interactive) {
    if (has_recipe || !options.sweeps.empty() || options.chain > 0) {
      refuse("--interactive takes no recipe, sweep or chain: it gives a shell",
             "lockstep submit --interactive, and `srun lockstep train RECIPE` in it");
    }
    return;
  }
  if (!has_recipe && !has_program) {
    refuse("neither a recipe nor a program was given",
           "lockstep submit RECIPE --nodes N, or lockstep submit --nodes N -- python train.py");
  }
  if (options.chain < 0) {
    refuse("--chain is " + std::to_string(options.chain) + ", want 1 or more",
           "it is the number of jobs that the run may take, one after the other");
  }
  if (!options.sweeps.empty() && !has_recipe) {
    refuse("--sweep varies settings of a recipe, but a program was given",
           "submit the program once for each of its values");
  }
  if (options.is.pack && options.sweeps.empty()) {
    refuse("--pack places the trials of a sweep, but there is no --sweep", "--sweep optimizer.lr=0.1,0.01 --pack");
  }
  if (options.stage == "lockstep" && !has_recipe) {
    refuse("--stage lockstep takes the training half along, but a program was given",
           "name the program's conda environment or venv: --stage DIR");
  }
}

Target target_of(const SubmitOptions& options, const Site& site, const Context& context) {
  auto overrides = overrides_of(options.flags.sets);
  overrides.insert(overrides.end(), options.settings.begin(), options.settings.end());
  Target target{
      .settings = options.flags.recipe.empty()
                      ? Recipe::without_file(context.env, overrides)
                      : Recipe::load(recipe_file(options.flags.recipe, this_program()), context.env, overrides),
      .profile = {},
      .profile_word = {}};
  const std::string word = !options.cluster.empty()              ? options.cluster
                           : target.settings.has("cluster.name") ? target.settings.text("cluster.name")
                                                                 : "auto";
  target.profile = site.chosen(word);
  target.is_here = site.is_here(target.profile);
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
                   .profile_path = absolute_profile_path(context.env),
                   .host = host_name()};
  if (places.host.empty()) places.host = "LOGIN_NODE";
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

/// Packs lie beside runs, on a file system for large files, unless a folder for all that is kept is named.
fs::path packs_folder(const Target& target, const JobWish& wish, const Environment& env) {
  if (const auto cache = env.get("LOCKSTEP_CACHE")) return fs::absolute(*cache) / "packs";
  return runs_folder(target.profile, wish.queue.account, env) / ".packs";
}

void add_stage(JobWish& wish, const SubmitOptions& options, const Target& target, const Context& context) {
  if (options.stage.empty()) return;
  const bool is_trainer = options.stage == "lockstep";
  wish.software.stage = job_stage({.word = options.stage,
                                   .trainer = is_trainer ? trainer_program(running_lockstep(), context.env) : std::string(),
                                   .packs = packs_folder(target, wish, context.env),
                                   .is_here = target.is_here},
                                  target.profile);
  if (!wish.program.is_recipe && !wish.program.command.empty()) {
    wish.program.command.front() = staged_word(wish.software.stage, wish.program.command.front());
  }
}

/// A recipe's data, where they lie here: else the profile's binds are to show them.
std::optional<std::string> data_here(const Target& target) {
  if (!target.is_here || !target.settings.has("data.path")) return std::nullopt;
  try {
    const auto path = target.settings.path("data.path");
    std::error_code ignored;
    return fs::exists(path, ignored) ? std::optional(path.string()) : std::nullopt;
  } catch (const Error&) {
    // It names a variable that is set where the tasks run.
    return std::nullopt;
  }
}

JobPlan plan_of(const SubmitOptions& options, const Target& target, const Context& context) {
  JobWish wish = job_wish(target.settings, options.flags, target.profile, context.env);
  wish.queue.chain = options.chain;
  wish.places = places_of(options, target, wish, context);
  add_stage(wish, options, target, context);
  if (wish.program.is_recipe) {
    wish.program.command = train_command(options, target, wish);
    if (!wish.software.container.empty()) {
      if (const auto built = chosen_build(context.env, LOCKSTEP_VERSION, wish.software.container)) {
        wish.places.trainer = built->program;
      }
      wish.software.binds.push_back(fs::path(wish.program.command[2]).parent_path().string());
      if (const auto data = data_here(target)) wish.software.binds.push_back(*data);
    }
  } else if (!wish.program.command.empty() && target.is_here && wish.software.container.empty() &&
             wish.software.setup.empty() && options.stage.empty()) {
    wish.program.command = with_absolute_program(wish.program.command, wish.software.conda, context.env);
  }
  return job_plan(wish, target.profile);
}

/// The folder that holds those of a sweep's trials.
fs::path sweep_folder(const SubmitOptions& options, const Target& target, const Context& context) {
  if (!options.run_dir.empty()) return fs::absolute(options.run_dir).lexically_normal();
  return plan_of(options, target, context).places.run_dir;
}

/// The same with one trial's settings.
SubmitOptions with_sets(SubmitOptions options, const Trial& trial) {
  options.flags.sets.insert(options.flags.sets.end(), trial.sets.begin(), trial.sets.end());
  return options;
}

/// One job for each trial, in folders side by side.
std::vector<JobPlan> jobs_of_trials(const SubmitOptions& options, const Target& target, const Site& site,
                                    const Context& context) {
  const auto sweep = sweep_folder(options, target, context);
  std::vector<JobPlan> jobs;
  for (const auto& trial : trials_of(options.sweeps)) {
    SubmitOptions one = with_sets(options, trial);
    one.run_dir = (sweep / trial.name).string();
    jobs.push_back(plan_of(one, target_of(one, site, context), context));
  }
  return jobs;
}

/// One job for as many trials as a node takes.
std::vector<PackedJob> packed_trials(const SubmitOptions& options, const Target& target, const Site& site,
                                     const Context& context) {
  const auto sweep = sweep_folder(options, target, context);
  const auto shape = job_wish(target.settings, options.flags, target.profile, context.env).shape;
  if (shape.nodes != 1) {
    refuse("--nodes is " + std::to_string(shape.nodes) + ", but packed trials have one device each",
           "leave --nodes out: there is a job for each node that is needed");
  }
  const int each = trials_on_a_node(shape, target.profile);
  SubmitOptions alone = options;
  alone.flags.tasks = 1;
  alone.flags.devices = std::min(1, shape.devices.value_or(static_cast<int>(target.profile.devices.count)));
  alone.run_dir = sweep.string();
  const auto plan_alone = plan_of(alone, target, context);
  SubmitOptions whole = options;
  whole.flags.tasks = each;
  std::vector<PackedJob> jobs;
  for (const auto& trial : trials_of(options.sweeps)) {
    // A value that a setting does not take is found now, not by a job.
    target_of(with_sets(options, trial), site, context);
    if (jobs.empty() || std::ssize(jobs.back().trials) == each) {
      whole.run_dir = (sweep / ("job-" + std::to_string(jobs.size() + 1))).string();
      jobs.push_back({.node = plan_of(whole, target, context), .trial = plan_alone, .sweep = sweep});
    }
    PackedTrial packed{.name = trial.name, .arguments = {}};
    for (const auto& set : trial.sets) packed.arguments.insert(packed.arguments.end(), {"--set", set});
    jobs.back().trials.push_back(std::move(packed));
  }
  return jobs;
}

}  // namespace

Submission submission_of(const SubmitOptions& options, const Context& context) {
  check_request(options);
  const Site site(context.env);
  const Target target = target_of(options, site, context);
  for (const auto& note : target.settings.notes()) context.log.info(note);
  Submission out{.is_here = target.is_here};
  if (options.is.pack) {
    out.packed = packed_trials(options, target, site, context);
  } else if (!options.sweeps.empty()) {
    out.jobs = jobs_of_trials(options, target, site, context);
  } else {
    out.jobs.push_back(plan_of(options, target, context));
  }
  if (target.is_here || !options.is.dry_run) check_image(out.first(), target.settings);
  return out;
}

}  // namespace lockstep::cli
