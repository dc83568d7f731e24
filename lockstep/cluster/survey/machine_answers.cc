// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/machine_answers.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <system_error>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/profile/slurm_config.h"
#include "lockstep/cluster/survey/mounts.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/program.h"
#include "lockstep/launch/slurm_tool.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Runs `command` for at most half a minute. On a login node a command hangs if the service that it asks hangs.
ProcessResult asked(std::vector<std::string> command, const Environment& env) {
  command.insert(command.begin(), {"timeout", "30"});
  return run_slurm_tool(command, env);
}

std::string told(const std::vector<std::string>& command, const Environment& env) {
  const auto answer = asked(command, env);
  if (answer.exit_code == 0) return answer.output;
  throw Error(ErrorKind::kEnvironment,
              joined(command, " ") + " does not answer: " +
                  (answer.exit_code == 124 ? "nothing came for 30 s" : std::string(first_line(trimmed(answer.errors)))),
              "ask again in a while, from a login node of the cluster");
}

/// Returns the output of a command that may be missing, such as a command of Slurm's accounting. Empty if it is missing
/// or fails.
std::string told_perhaps(const std::vector<std::string>& command, const Environment& env) {
  const auto answer = asked(command, env);
  return answer.exit_code == 0 ? answer.output : std::string();
}

SurveyUser this_user(const Environment& env) {
  SurveyUser user;
  const auto* record = ::getpwuid(::geteuid());
  user.name = record != nullptr ? record->pw_name : env.get("USER").value_or("");
  std::array<gid_t, 256> ids{};
  const int count = ::getgroups(static_cast<int>(ids.size()), ids.data());
  for (int i = 0; i < count; ++i) {
    if (const auto* group = ::getgrgid(ids.at(static_cast<std::size_t>(i)))) user.groups.emplace_back(group->gr_name);
  }
  return user;
}

bool is_own_folder(const fs::path& path) {
  std::error_code ignored;
  return path.is_absolute() && fs::is_directory(path, ignored) && ::access(path.c_str(), W_OK | X_OK) == 0;
}

/// Returns the first of the variables that names a folder of this user.
OwnFolder folder_by_variable(const Environment& env, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    const auto value = env.get(name);
    if (value && is_own_folder(*value)) return {.value = "$" + name, .source = "$" + name + " is " + *value};
  }
  return {};
}

/// Returns a folder of this user on a shared file system whose name shows that it is scratch.
OwnFolder scratch_by_mounts(const std::vector<Mount>& mounts, const std::string& user, const fs::path& root) {
  if (user.empty()) return {};
  for (const auto& mount : mounts) {
    const bool is_plain = std::ranges::all_of(mount.folder, [](unsigned char c) { return c > 32 && c < 127; });
    if (!is_plain || !is_shared_type(mount.type) || mount.folder.find("scratch") == std::string::npos) continue;
    for (const auto* below : {"/{user}", "/users/{user}", "/user/{user}", "/home/{user}"}) {
      const auto folder = mount.folder + below;
      const auto real = expand_template(folder, {{"user", user}});
      if (is_own_folder(root / fs::path(real).relative_path())) {
        return {.value = folder, .source = "/proc/self/mounts: " + mount.folder + " is " + mount.type};
      }
    }
  }
  return {};
}

/// Returns the date in a utc_stamp() such as "20261123-084930", with dashes: "2026-11-23".
std::string today() {
  const auto stamp = utc_stamp(std::chrono::system_clock::now());
  return stamp.substr(0, 4) + "-" + stamp.substr(4, 2) + "-" + stamp.substr(6, 2);
}

void ask_accounting(MachineAnswers& answers, const Environment& env) {
  const auto& user = answers.user.name;
  if (user.empty() || !program_in_path("sacctmgr", env)) return;
  answers.associations =
      told_perhaps({"sacctmgr", "-nP", "show", "assoc", "user=" + user, "format=Cluster,Account,QOS"}, env);
  if (answers.associations.empty()) return;
  answers.user_record = told_perhaps({"sacctmgr", "-nP", "show", "user", user, "format=DefaultAccount"}, env);
  answers.qos = told_perhaps({"sacctmgr", "-nP", "show", "qos", "format=Name,MaxWall,MaxTRES"}, env);
}

/// `module` is a function of the shell, and its list goes to standard error with some module systems.
std::string ask_modules(const Environment& env) {
  if (!env.get("MODULEPATH") || !program_in_path("bash", env)) return {};
  const auto has_function = env.get("LMOD_CMD") || env.get("MODULESHOME") || env.get("BASH_FUNC_module%%");
  if (!has_function) return {};
  return told_perhaps({"bash", "-c",
                       R"(if ! type module >/dev/null 2>&1; then
  for file in "$MODULESHOME/init/bash" "$(dirname "${LMOD_CMD:-/}")/../init/bash" /etc/profile.d/modules.sh; do
    if [ -r "$file" ]; then . "$file" >/dev/null 2>&1; break; fi
  done
fi
module -t avail 2>&1)"},
                      env);
}

}  // namespace

MachineAnswers ask_machine(const Environment& env, const fs::path& root) {
  if (!program_in_path("scontrol", env)) {
    throw Error(ErrorKind::kEnvironment, "there is no scontrol in PATH, so Slurm cannot be asked",
                "run this on a login node; on some, run `module load slurm` first");
  }
  MachineAnswers answers{.host = host_name(), .date = today(), .config = told({"scontrol", "show", "config"}, env)};
  answers.partitions = told({"scontrol", "show", "partition", "--oneliner"}, env);
  answers.nodes = told({"scontrol", "show", "node", "--oneliner"}, env);
  answers.user = this_user(env);
  ask_accounting(answers, env);
  answers.modules = ask_modules(env);
  answers.mounts = text_or_nothing(root / "proc/self/mounts");
  for (const auto* runtime : {"apptainer", "singularity", "podman-hpc", "shifter"}) {
    if (program_in_path(runtime, env)) answers.container_runtimes.emplace_back(runtime);
  }
  if (!names_in(root / "sys/class/cxi").empty()) {
    answers.network = "Slingshot";
  } else if (!names_in(root / "sys/class/infiniband").empty()) {
    answers.network = "InfiniBand";
  }
  answers.scratch = folder_by_variable(env, {"SCRATCH", "PSCRATCH", "SCRATCHDIR"});
  if (answers.scratch.value.empty()) {
    answers.scratch = scratch_by_mounts(parsed_mounts(answers.mounts), env.get("USER").value_or(""), root);
  }
  answers.project = folder_by_variable(env, {"PROJECT", "WORK"});
  return answers;
}

NodeView ask_node(const Environment& env, const std::vector<std::string>& flags,
                  const std::vector<std::string>& folders) {
  std::vector<std::string> command = {"srun", "-N1", "-n1", "--time=2", "--job-name=lockstep-profile"};
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), {this_program().string(), "profile", "node"});
  for (const auto& folder : folders) command.insert(command.end(), {"--folder", folder});
  const auto answer = run_process(command, env);
  if (answer.exit_code != 0) {
    throw Error(ErrorKind::kEnvironment,
                "srun gave no compute node to look at: " + std::string(last_line(trimmed(answer.errors))),
                "without --live the profile is written, and marks the facts that only a compute node has");
  }
  return parsed_node_view(answer.output);
}

}  // namespace lockstep
