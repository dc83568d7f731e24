// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/request.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/flag/sbatch_flag.h"
#include "lockstep/cluster/job/container_command.h"
#include "lockstep/cluster/job/python_environment.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string text_or_empty(const Recipe& settings, std::string_view key) {
  return settings.has(key) ? settings.text(key) : std::string();
}

/// Returns the image in the form for the container runtime: a file by its absolute path, and any other image by its
/// name. "site" is the profile's image, and "none" is no image.
std::string image_of(const Recipe& settings, const SubmitFlags& flags, const Profile& profile, const Environment& env) {
  const bool is_default = profile.container.by_default && needs_environment(settings, flags, env);
  if (!settings.has("cluster.container")) {
    return is_default ? profile.container.image : std::string();
  }
  const auto& setting = settings.settings().at("cluster.container");
  const auto image = expanded(settings.text("cluster.container"), env);
  if (image == "none") return {};
  if (image == "site") return site_image(profile);
  if (!is_image_file(image, profile.container.runtime)) return image;
  return fs::absolute(setting.base / image).lexically_normal().string();
}

JobSoftware software_of(const Recipe& settings, const SubmitFlags& flags, const Profile& profile,
                        const Environment& env) {
  JobSoftware software;
  if (settings.has("cluster.modules")) software.modules = settings.texts("cluster.modules");
  software.conda = expanded(text_or_empty(settings, "cluster.conda"), env);
  software.setup = settings.texts("cluster.setup");
  software.setup_once = settings.texts("cluster.setup_once");
  software.container = image_of(settings, flags, profile, env);
  software.binds = settings.texts("cluster.binds");
  software.env = settings.texts("cluster.env");
  // LOCKSTEP_DOCTOR=off in this shell also turns off the check that the job makes on its nodes. So the variable is
  // passed on, even if the job gets no other variable of this shell.
  if (env.get("LOCKSTEP_DOCTOR") == "off") software.env.emplace_back("LOCKSTEP_DOCTOR=off");
  return software;
}

/// Returns a setting, or else the value of the variable that sbatch would read. The checks must see that value too.
std::string setting_or_variable(const Recipe& settings, std::string_view key, const Environment& env,
                                const char* variable) {
  return settings.has(key) ? settings.text(key) : env.get(variable).value_or("");
}

JobQueue queue_of(const Recipe& settings, const Environment& env) {
  JobQueue queue;
  queue.account = job_account(settings, env);
  queue.partition = setting_or_variable(settings, "cluster.partition", env, "SBATCH_PARTITION");
  queue.qos = setting_or_variable(settings, "cluster.qos", env, "SBATCH_QOS");
  if (settings.has("cluster.time")) {
    queue.time = std::chrono::seconds(static_cast<std::int64_t>(std::ceil(settings.real("cluster.time"))));
  }
  return queue;
}

RequestedShape shape_of(const Recipe& settings, const SubmitFlags& flags) {
  RequestedShape shape;
  if (settings.has("cluster.nodes")) shape.nodes = static_cast<int>(settings.integer("cluster.nodes"));
  if (settings.has("cluster.min_nodes")) {
    shape.least_nodes = static_cast<int>(settings.integer("cluster.min_nodes"));
    if (settings.has("cluster.node_step")) shape.node_step = static_cast<int>(settings.integer("cluster.node_step"));
  }
  std::optional<int> devices = flags.devices;
  if (!devices && settings.has("trainer.devices")) devices = static_cast<int>(settings.integer("trainer.devices"));
  shape.devices = devices;
  shape.tasks = flags.tasks;
  shape.cores_per_task = flags.cores_per_task;
  if (settings.has("trainer.accelerator") && settings.text("trainer.accelerator") == "cpu") {
    shape.devices = 0;
    if (!shape.tasks) shape.tasks = devices;
  }
  return shape;
}

/// Returns this user's own folder on the site's scratch file system, which the profile names. Nothing if it is unknown.
std::optional<fs::path> scratch_of_user(const Profile& profile, const std::string& account, const Environment& env) {
  const auto& scratch = profile.storage.scratch;
  const auto user = env.get("USER");
  const bool is_own = scratch.find("{user}") != std::string::npos || scratch.starts_with('$');
  const auto& project = account.empty() ? profile.slurm.account : account;
  const bool is_known = (!project.empty() || scratch.find("{project}") == std::string::npos) && user &&
                        (!scratch.starts_with('$') || env.get(scratch.substr(1)));
  if (!is_own || !is_known) return std::nullopt;
  return fs::path(expanded(expand_template(scratch, {{"project", project}, {"user", *user}}), env));
}

/// Empty if dead ranks are not started again.
std::string heal_of(const Recipe& settings) {
  if (settings.text("trainer.heal") == "off") return {};
  const auto window = std::ceil(settings.real("trainer.heal_window"));
  return std::to_string(settings.integer("trainer.heal_limit")) + ":" + std::to_string(static_cast<int>(window));
}

}  // namespace

bool needs_environment(const Recipe& settings, const SubmitFlags& flags, const Environment& env) {
  const bool has_one = settings.has("cluster.conda") || settings.has("cluster.modules") || flags.has_stage ||
                       !settings.texts("cluster.setup").empty() || !settings.texts("cluster.setup_once").empty() ||
                       !active_environment(env).empty();
  return !has_one && !flags.program.empty() && is_open_python(flags.program.front());
}

/// If Slurm may choose the number of nodes, the global batch must not grow with that number.
void require_global_batch(const Recipe& settings, const RequestedShape& shape) {
  if (shape.least_nodes.value_or(shape.nodes) == shape.nodes || settings.has("data.global_batch")) return;
  throw Error(ErrorKind::kRecipe,
              "a job of " + std::to_string(*shape.least_nodes) + " to " + counted(shape.nodes, "node") +
                  " needs one batch for each size, but data.batch (" + settings.origin("data.batch").where +
                  ") counts per rank",
              "set data.global_batch, which counts for all ranks together");
}

JobRequest job_request(const Recipe& settings, const SubmitFlags& flags, const Profile& profile,
                       const Environment& env) {
  JobRequest request;
  request.shape = shape_of(settings, flags);
  if (!flags.recipe.empty()) require_global_batch(settings, request.shape);
  request.queue = queue_of(settings, env);
  request.software = software_of(settings, flags, profile, env);
  request.sbatch = settings.texts("cluster.sbatch");
  request.sbatch.insert(request.sbatch.end(), flags.sbatch.begin(), flags.sbatch.end());
  std::ranges::for_each(request.sbatch, check_sbatch_flag);
  request.program.is_recipe = !flags.recipe.empty();
  if (request.program.is_recipe) {
    request.program.heal = heal_of(settings);
    request.program.is_any_size = settings.has("data.global_batch");
  }
  request.program.command = flags.program;
  request.program.name = job_name(settings, flags);
  return request;
}

std::string job_name(const Recipe& settings, const SubmitFlags& flags) {
  if (!flags.name.empty()) return flags.name;
  return flags.recipe.empty() ? name_of_program(flags.program) : settings.name();
}

std::string job_account(const Recipe& settings, const Environment& env) {
  return setting_or_variable(settings, "cluster.account", env, "SBATCH_ACCOUNT");
}

std::string name_of_program(const std::vector<std::string>& command) {
  if (command.empty()) return "shell";
  const fs::path program(command.front());
  if (!program.filename().string().starts_with("python")) return program.filename().string();
  for (std::size_t i = 1; i < command.size(); ++i) {
    const auto& word = command[i];
    if (word == "-c") return program.filename().string();
    if (word == "-m" && i + 1 < command.size()) return command[i + 1];
    if (!word.starts_with('-')) return fs::path(word).stem().string();
  }
  return program.filename().string();
}

fs::path runs_folder(const Profile& profile, const std::string& account, const Environment& env) {
  if (const auto given = env.get("LOCKSTEP_RUNS")) return fs::absolute(*given);
  const auto scratch = scratch_of_user(profile, account, env);
  return scratch ? *scratch / "runs" : fs::absolute("runs");
}

std::map<std::string, std::string> download_folders(const JobPlan& plan, const Profile& profile,
                                                    const Environment& env) {
  std::map<std::string, std::string> folders;
  const auto scratch = scratch_of_user(profile, plan.queue.account, env);
  if (!profile.storage.home_is_small || !scratch) return folders;
  for (const auto& [name, folder] : {std::pair("TORCH_HOME", "torch"), std::pair("HF_HOME", "huggingface")}) {
    const auto sets = [name = std::string(name)](const auto& each) { return each.starts_with(name + "="); };
    const bool is_set = env.get(name) || plan.env.contains(name) || std::ranges::any_of(plan.own_env, sets);
    if (!is_set) folders[name] = (*scratch / ".cache" / folder).string();
  }
  return folders;
}

}  // namespace lockstep
