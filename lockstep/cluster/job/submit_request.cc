// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/submit_request.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/flag/sbatch_flag.h"
#include "lockstep/cluster/flag/sweep.h"
#include "lockstep/cluster/job/container_command.h"
#include "lockstep/cluster/job/first_look.h"
#include "lockstep/cluster/job/limits.h"
#include "lockstep/cluster/job/python_environment.h"
#include "lockstep/cluster/job/queue.h"
#include "lockstep/cluster/job/submit_check.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/cluster/setup/trainer_build.h"
#include "lockstep/observe/run_folder.h"
#include "lockstep/recipe/builtin.h"
#include "lockstep/recipe/raw_setting.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The settings of a job, and the profile of its system.
struct Target {
  Recipe settings;
  Profile profile;
  std::string profile_word;  ///< The name of the profile on a node.
  bool is_here = false;      ///< This is the system that the job is for.
};

/// The environment of a submission: variables, folders and programs.
struct Submitter {
  const LockstepProgram& lockstep;
  const Environment& env;
  const ProfileChooser& chooser;
};

[[noreturn]] void refuse(const std::string& fact, const std::string& hint) {
  throw Error(ErrorKind::kUsage, fact, hint);
}

Target find_target(const SubmitRequest& request, const Submitter& by) {
  auto overrides = overrides_of(request.flags.sets);
  overrides.insert(overrides.end(), request.settings.begin(), request.settings.end());
  Target target{.settings = request.flags.recipe.empty()
                                ? Recipe::without_file(by.env, overrides)
                                : Recipe::load(recipe_file(request.flags.recipe, by.lockstep.path), by.env, overrides),
                .profile = {},
                .profile_word = {}};
  const std::string word = !request.cluster.empty()              ? request.cluster
                           : target.settings.has("cluster.name") ? target.settings.text("cluster.name")
                                                                 : "auto";
  target.profile = by.chooser.chosen(word);
  target.is_here = by.chooser.is_here(target.profile);
  const bool is_file = word.find('/') != std::string::npos || word.ends_with(".toml");
  target.profile_word = is_file ? fs::absolute(word).string() : target.profile.name;
  return target;
}

/// Returns LOCKSTEP_PROFILE_PATH with absolute paths. If the user's own profiles are in an unusual folder, that is
/// included, since a job need not get the variable for it.
std::string absolute_profile_path(const Environment& env) {
  std::vector<std::string> entries;
  for (const auto& entry : split(env.get("LOCKSTEP_PROFILE_PATH").value_or(""), ':')) {
    if (!entry.empty()) entries.push_back(fs::absolute(entry).string());
  }
  std::error_code ignored;
  if (env.get("XDG_CONFIG_HOME") && fs::is_directory(own_profiles_folder(env), ignored)) {
    entries.push_back(fs::absolute(own_profiles_folder(env)).string());
  }
  return joined(entries, ":");
}

/// Returns the run folder of a job, or for a sweep the folder with the run folders of its trials. Nothing is created.
fs::path run_folder(const SubmitRequest& request, const Target& target, const Environment& env) {
  if (!request.run_dir.empty()) return fs::absolute(request.run_dir).lexically_normal();
  auto variables = env.all();
  variables["LOCKSTEP_RUNS"] = runs_folder(target.profile, job_account(target.settings, env), env).string();
  return run_dir_at(job_name(target.settings, request.flags), std::chrono::system_clock::now(),
                    Environment(std::move(variables)));
}

JobPaths job_paths(const SubmitRequest& request, const Target& target, const Submitter& by) {
  JobPaths paths{.run_dir = run_folder(request, target, by.env),
                 .work_dir = fs::current_path(),
                 .lockstep = by.lockstep.path,
                 .profile = target.profile_word,
                 .profile_path = absolute_profile_path(by.env),
                 .host = host_name()};
  if (paths.host.empty()) paths.host = "LOGIN_NODE";
  return paths;
}

/// Returns the command `lockstep train` with the options given to `submit`, so that all tasks use the same settings.
std::vector<std::string> train_command(const SubmitRequest& request, const Target& target, const JobRequest& job) {
  const auto recipe = fs::absolute(recipe_file(request.flags.recipe, job.paths.lockstep)).lexically_normal();
  std::vector<std::string> command = {job.paths.lockstep.string(), "train", recipe.string(), "--run-dir",
                                      job.paths.run_dir.string()};
  for (const auto& text : request.flags.sets) command.insert(command.end(), {"--set", text});
  if (target.settings.has("cluster.nodes")) {
    command.insert(command.end(), {"--set", "cluster.nodes=" + std::to_string(job.shape.nodes)});
    const bool may_shrink = job.queue.restarts > 0 && job.program.is_any_size;
    if (const auto least = may_shrink ? std::optional(1) : job.shape.least_nodes) {
      command.insert(command.end(), {"--set", "cluster.min_nodes=" + std::to_string(*least)});
    }
  }
  if (job.shape.devices.value_or(0) > 0) {
    command.insert(command.end(), {"--devices", std::to_string(*job.shape.devices)});
  }
  return command;
}

/// The image must exist. So must the conda environment, if there is no image.
void check_software(const JobPlan& plan, const Target& target) {
  std::error_code ignored;
  const auto& image = plan.container.image;
  if (!plan.has_container()) check_conda(plan.conda);
  if (image.empty() || !is_image_file(image, plan.container.runtime) || fs::exists(image, ignored)) return;
  const bool is_given = target.settings.has("cluster.container");
  const auto origin =
      is_given ? target.settings.origin("cluster.container").where : target.profile.origin("container.image");
  throw Error(ErrorKind::kEnvironment, "there is no container image '" + image + "' (" + origin + ")",
              "check the path; the site's own image is in `lockstep profile show " + plan.cluster + "`");
}

/// Packs are stored beside the runs, on a file system for large files, unless LOCKSTEP_CACHE names a folder.
fs::path packs_folder(const Target& target, const JobRequest& job, const Environment& env) {
  if (const auto cache = env.get("LOCKSTEP_CACHE")) return fs::absolute(*cache) / "packs";
  return runs_folder(target.profile, job.queue.account, env) / ".packs";
}

void add_stage(JobRequest& job, const SubmitRequest& request, const Target& target, const Submitter& by) {
  if (request.stage.empty()) return;
  const bool is_trainer = request.stage == "lockstep";
  job.software.stage = job_stage({.word = request.stage,
                                  .trainer = is_trainer ? trainer_program(by.lockstep, by.env) : std::string(),
                                  .packs = packs_folder(target, job, by.env),
                                  .is_here = target.is_here},
                                 target.profile);
  if (!job.program.is_recipe && !job.program.command.empty()) {
    job.program.command.front() = staged_word(job.software.stage, job.program.command.front());
  }
}

void add_data(JobRequest& job, const SubmitRequest& request, const Target& target, const Environment& env) {
  if (request.stage_data.empty()) return;
  auto data = job_data(request.stage_data, packs_folder(target, job, env), target.is_here, target.profile);
  if (!data.inside.empty() && job.software.container.empty()) {
    refuse("--stage-data names '" + data.inside + "' in a container, but the job has none",
           "--stage-data DIR alone: the program finds the data under $LOCKSTEP_DATA");
  }
  if (!job.program.is_recipe) {
    job.software.data = std::move(data);
    return;
  }
  if (!target.settings.has("data.path")) {
    refuse("--stage-data takes a recipe's data to the nodes, but this one has no data.path", "leave it out");
  }
  const auto path = staged_path(data, target.settings.path("data.path"));
  job.program.command.insert(job.program.command.end(), {"--set", "data.path=" + path});
  job.software.data = std::move(data);
}

/// Returns the path of a recipe's data, if it exists on this machine. If not, the profile's binds must provide it.
std::optional<std::string> data_here(const Target& target) {
  if (!target.is_here || !target.settings.has("data.path")) return std::nullopt;
  try {
    const auto path = target.settings.path("data.path");
    std::error_code ignored;
    return fs::exists(path, ignored) ? std::optional(path.string()) : std::nullopt;
  } catch (const Error&) {
    // The path has a variable that is set only on the nodes, so it is not checked here.
    return std::nullopt;
  }
}

/// Returns the profile. If it lacks the number of cores per device, and this is its system, the number is asked from
/// Slurm.
Profile profile_for(const JobRequest& job, const Target& target, const Environment& env) {
  Profile profile = target.profile;
  const bool is_open = profile.sbatch.cores_per_device == 0 && !job.shape.cores_per_task;
  if (!target.is_here || !is_open || job.shape.devices.value_or(0) == 0) return profile;
  if (const auto node = node_with_devices(job.queue.partition, env)) {
    profile.sbatch.cores_per_device = node->cores / node->devices;
  }
  return profile;
}

JobPlan plan_job(const SubmitRequest& request, const Target& target, const Submitter& by) {
  SubmitFlags flags = request.flags;
  flags.has_stage = !request.stage.empty();
  JobRequest job = job_request(target.settings, flags, target.profile, by.env);
  job.queue.chain = request.chain;
  job.queue.restarts = std::max(request.restarts, request.spares);
  job.queue.spares = request.spares;
  if (request.spares > 0 && job.shape.least_nodes.value_or(job.shape.nodes) < job.shape.nodes) {
    throw Error(ErrorKind::kUsage, "--spares is " + std::to_string(request.spares) + ", but --nodes is a range",
                "leave out one of them: a job of several sizes goes on with the nodes that are left (--restarts)");
  }
  job.queue.goes_on = may_requeue(request.requeue);
  if (!request.signal.empty()) job.queue.signal = limit_signal(request.signal);
  job.paths = job_paths(request, target, by);
  add_stage(job, request, target, by);
  if (job.program.is_recipe) {
    job.program.command = train_command(request, target, job);
    if (!job.software.container.empty()) {
      if (const auto built = chosen_build(by.env, by.lockstep.version, job.software.container)) {
        job.paths.trainer = built->program;
      }
      job.software.binds.push_back(fs::path(job.program.command[2]).parent_path().string());
      if (const auto data = data_here(target)) job.software.binds.push_back(*data);
    }
  } else if (!job.program.command.empty() && target.is_here && job.software.container.empty() &&
             job.software.setup.empty() && job.software.setup_once.empty() && job.software.conda.empty() &&
             !job.software.modules && request.stage.empty()) {
    // Any other Python is looked up in the job, after the job's set-up.
    job.program.command = with_program_of(active_environment(by.env), job.program.command);
  }
  add_data(job, request, target, by.env);
  auto plan = job_plan(job, profile_for(job, target, by.env));
  plan.downloads = download_folders(plan, target.profile, by.env);
  return plan;
}

/// Returns the request with one trial's settings, or with its values in the program's command.
SubmitRequest with_trial(SubmitRequest request, const Trial& trial) {
  if (request.flags.program.empty()) {
    request.flags.sets.insert(request.flags.sets.end(), trial.sets.begin(), trial.sets.end());
  } else {
    request.flags.program = command_of_trial(request.flags.program, trial);
  }
  return request;
}

/// Makes one job for each trial. Their folders are side by side.
std::vector<JobPlan> plan_trials(const SubmitRequest& request, const Target& target, const Submitter& by) {
  const auto sweep = run_folder(request, target, by.env);
  const auto name = job_name(target.settings, request.flags);
  std::vector<JobPlan> jobs;
  for (const auto& trial : trials_of(request.sweeps)) {
    SubmitRequest one = with_trial(request, trial);
    if (!one.flags.program.empty()) one.flags.name = name + "-" + trial.name;
    one.run_dir = (sweep / trial.name).string();
    jobs.push_back(plan_job(one, find_target(one, by), by));
  }
  return jobs;
}

/// Returns the arguments that differ between a job's trials: a recipe's swept settings, or all arguments of a program.
std::vector<std::string> own_arguments(const SubmitRequest& request, const Trial& trial) {
  if (request.flags.program.empty()) {
    std::vector<std::string> arguments;
    for (const auto& set : trial.sets) arguments.insert(arguments.end(), {"--set", set});
    return arguments;
  }
  const auto words = command_of_trial(request.flags.program, trial);
  if (words.front() != request.flags.program.front()) {
    refuse("--sweep varies the program itself, '" + request.flags.program.front() + "', but packed trials share it",
           "leave out --pack");
  }
  return {words.begin() + 1, words.end()};
}

/// Returns the job of a single trial, without the trial's own arguments.
JobPlan plan_alone(const SubmitRequest& request, const Target& target, const Submitter& by, const fs::path& sweep) {
  const auto shape = job_request(target.settings, request.flags, target.profile, by.env).shape;
  SubmitRequest alone = request;
  alone.flags.tasks = 1;
  alone.flags.devices = std::min(1, shape.devices.value_or(static_cast<int>(target.profile.devices.count)));
  // A trial gets its share of the node's cores, since the other cores belong to other trials.
  const auto profile = profile_for(job_request(target.settings, alone.flags, target.profile, by.env), target, by.env);
  const auto share = static_cast<int>(profile.sbatch.cores_per_device) * alone.flags.devices.value_or(0);
  if (!alone.flags.cores_per_task && share > 0) {
    alone.flags.cores_per_task = std::max(1, share / request.per_device.value_or(1));
  }
  alone.run_dir = sweep.string();
  auto plan = plan_job(alone, target, by);
  if (!plan.program.is_recipe) plan.program.command.resize(1);
  return plan;
}

/// Makes jobs of one node, each with as many trials as a node can run.
std::vector<PackedJob> plan_packed_trials(const SubmitRequest& request, const Target& target, const Submitter& by) {
  const auto sweep = run_folder(request, target, by.env);
  const auto shape = job_request(target.settings, request.flags, target.profile, by.env).shape;
  if (shape.nodes != 1 || shape.least_nodes.value_or(1) != 1) {
    refuse("--nodes is " + std::to_string(shape.nodes) + ", but packed trials have one device each",
           "leave --nodes out: there is a job for each node that is needed");
  }
  const int shares = trials_on_a_node(shape, target.profile);
  const int per_device = request.per_device.value_or(1);
  const int each = shares * per_device;
  const auto alone = plan_alone(request, target, by, sweep);
  if (per_device > 1 && alone.size.devices == 0) {
    refuse("--per-device is " + std::to_string(per_device) + ", but the trials have no devices to share",
           "--tasks-per-node N puts N trials on a node");
  }
  std::vector<PackedJob> jobs;
  for (const auto& trial : trials_of(request.sweeps)) {
    const auto one = with_trial(request, trial);
    // Each trial's settings are checked now, so that a wrong value is found before any job starts.
    find_target(one, by);
    if (jobs.empty() || std::ssize(jobs.back().trials) == each) {
      SubmitRequest whole = request;
      whole.flags.tasks = shares;
      if (whole.flags.cores_per_task) whole.flags.cores_per_task = *whole.flags.cores_per_task * per_device;
      whole.flags.program = one.flags.program;  // Without braces, so that its files can be looked at.
      whole.flags.name = job_name(target.settings, request.flags);
      whole.run_dir = (sweep / ("job-" + std::to_string(jobs.size() + 1))).string();
      jobs.push_back({.node = plan_job(whole, target, by), .trial = alone, .sweep = sweep, .per_device = per_device});
    }
    jobs.back().trials.push_back({.name = trial.name, .arguments = own_arguments(request, trial)});
  }
  return jobs;
}

/// Warns of software that the program or its image will miss on the nodes.
void warn_of_software(const JobPlan& plan, const Target& target, const SubmitRequest& request, const Environment& env,
                      const Log& log) {
  const auto& modules = target.profile.modules;
  const auto& torch = target.profile.software.torch;
  const bool has_modules = !modules.load.empty() && !modules.torch;
  if (!plan.has_container() && has_modules && needs_environment(target.settings, request.flags, env)) {
    log.warning("no Python environment is named, and the modules of " + plan.cluster + " (" +
                joined(modules.load, " ") +
                ") bring no PyTorch\n  hint: --conda ENV, --setup 'source …/bin/activate', "
                "--stage ENV or --set cluster.modules=[…]" +
                (torch.empty() ? "" : "; there: " + torch));
  }
  const bool loads = std::ranges::any_of(plan.setup, [](const auto& line) {
    return line.starts_with("module ") || line.starts_with("ml ") || line.starts_with("source ");
  });
  if (loads && !plan.has_container() && plan.size.world() > 1) {
    log.info("--setup runs in each of " + std::to_string(plan.size.world()) +
             " tasks: --setup-once runs a line once, and tasks get what it exports");
  }
}

}  // namespace

Submission plan_submission(const SubmitRequest& request, const LockstepProgram& lockstep, const Environment& env,
                           const Log& log) {
  check_request(request);
  const ProfileChooser chooser(env);
  const Submitter by{lockstep, env, chooser};
  const Target target = find_target(request, by);
  for (const auto& note : target.settings.notes()) log.info(note);
  Submission out{.is_here = target.is_here};
  if (request.is.pack) {
    out.packed = plan_packed_trials(request, target, by);
  } else if (!request.sweeps.empty()) {
    out.jobs = plan_trials(request, target, by);
  } else {
    out.jobs = {plan_job(request, target, by)};
  }
  if (request.at_most) check_no_dependency(out.first().sbatch);
  const bool lacks_cores = target.is_here && out.first().size.cores_per_task == 0;
  const auto known = lacks_cores ? nodes_have(out.first().queue.partition, env) : std::string();
  warn_of_request(out.first(), target.profile, known, log);
  warn_of_software(out.first(), target, request, env, log);
  if (out.first().has_container() && !target.settings.has("cluster.container")) {
    log.info("no Python environment was named: the tasks run in the image of " + target.profile.name + ", " +
             out.first().container.image + " (--container none: without)");
  }
  const auto& run_dir = out.first().paths.run_dir;
  out.folder = request.sweeps.empty() ? run_dir : run_dir.parent_path();
  if (target.is_here && !request.is.dry_run && env.get("LOCKSTEP_DOCTOR") != "off") {
    check_files_of_job(out.first(), target.settings);
  }
  if (target.is_here || !request.is.dry_run) check_software(out.first(), target);
  return out;
}

ClaimedFolder::ClaimedFolder(fs::path path) : path_(std::move(path)) {
  make_folder(path_.parent_path());
  // mkdir() either makes the folder, or fails because another process has made it. So only one process can claim it.
  has_it_ = ::mkdir(path_.c_str(), 0777) == 0;
  if (!has_it_ && errno != EEXIST) throw io_error("make", path_, errno);
}

ClaimedFolder::~ClaimedFolder() {
  std::error_code ignored;
  if (has_it_ && !is_kept_) fs::remove_all(path_, ignored);
}

}  // namespace lockstep
