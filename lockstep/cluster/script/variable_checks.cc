// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/variable_checks.h"

#include <algorithm>
#include <array>
#include <set>

#include "lockstep/base/pattern.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/variables.h"

namespace lockstep {
namespace {

constexpr auto kCaches = std::to_array<const char*>({"MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR",
                                                     "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH"});

/// True if programs read a variable of this name. Variables such as PATH are exported already, so these do not count.
bool is_for_programs(std::string_view name) {
  constexpr auto kBeginnings = std::to_array<std::string_view>({"CUDA_",
                                                                "NCCL_",
                                                                "RCCL_",
                                                                "HIP_",
                                                                "ROCR_",
                                                                "HSA_",
                                                                "MIOPEN_",
                                                                "MASTER_",
                                                                "OMP_",
                                                                "MKL_",
                                                                "FI_",
                                                                "TORCH_",
                                                                "TORCHINDUCTOR_",
                                                                "TRITON_",
                                                                "GLOO_",
                                                                "PYTORCH_",
                                                                "HF_",
                                                                "TRANSFORMERS_",
                                                                "WANDB_",
                                                                "TOKENIZERS_",
                                                                "UCX_",
                                                                "MPICH_",
                                                                "PYTHONUNBUFFERED",
                                                                "XDG_CACHE_HOME",
                                                                "SRUN_CPUS_PER_TASK",
                                                                "PET_",
                                                                "ACCELERATE_"});
  constexpr auto kNames = std::to_array<std::string_view>({"RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK"});
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kBeginnings, [&](auto begin) { return name.starts_with(begin); });
}

template <typename Check>
void for_each_script(const ScriptContext& of, const Check& check) {
  check(of.file.batch);
  for (const auto& facts : of.file.task_scripts) check(facts);
}

void check_exported(const ScriptFacts& facts, ScriptFindings& findings) {
  std::set<std::string> told;
  for (const auto& setting : facts.settings) {
    const auto variable = facts.variables.find(setting.name);
    const bool is_used = std::ranges::find(facts.used_names, setting.name) != facts.used_names.end();
    const bool is_exported =
        setting.is_for_one_command || (variable != facts.variables.end() && variable->second.is_exported);
    if (is_exported || is_used || !is_for_programs(setting.name) || !told.insert(setting.name).second) continue;
    findings.push_back(
        {"script-not-exported", Severity::kWarning, setting.line, facts.file,
         setting.name + " is set without `export`: programs see it only if the shell had exported it before",
         "export " + setting.name + "=" + setting.raw});
  }
}

/// `$SLURM_PROCID` in an export of the batch script is 0, and stays so in every task.
void check_early(const ScriptContext& of, ScriptFindings& findings) {
  if (of.file.shape().job_tasks() == 1) return;
  for (const auto& setting : of.file.batch.settings) {
    if (of.file.batch.exported(setting.name) != &setting) continue;
    for (const auto* name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"}) {
      if (!expands_name(setting.raw, name)) continue;
      findings.push_back(
          {"script-expanded-early",
           Severity::kError,
           setting.line,
           {},
           setting.name + " takes $" + name + " in the batch script, where it is 0: all tasks get that value",
           "srun bash -c 'export " + setting.name + "=" + setting.raw + "; exec …', in single quotes"});
    }
  }
}

bool asks_for_own_name(const std::string& value) {
  const auto at = value.find("hostname");
  if (at == std::string::npos || value.find("hostnames") != std::string::npos) return false;
  return value.starts_with("$(") || value.starts_with('`') || value == "$HOSTNAME";
}

void check_master(const ScriptContext& of, ScriptFindings& findings) {
  if (!of.spans_nodes()) return;
  for_each_script(of, [&](const ScriptFacts& facts) {
    const auto* setting = facts.exported("MASTER_ADDR");
    if (setting == nullptr) return;
    const auto& value = setting->value.text;
    const bool is_local = value == "localhost" || value.starts_with("127.");
    const bool is_own =
        !facts.file.empty() && (asks_for_own_name(value) || value == "$HOSTNAME" || value == "$SLURMD_NODENAME");
    if (is_local || is_own) {
      findings.push_back(
          {"script-master-address", Severity::kError, setting->line, facts.file,
           "MASTER_ADDR=" + setting->raw +
               (is_local ? " is each node itself" : ", set in each task, is each task's own node") +
               ": ranks of different nodes never meet",
           "in the batch script: export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)"});
      return;
    }
    const auto& suffix = of.profile.network.host_suffix;
    const bool is_name = value.find("hostname") != std::string::npos && value.find("hostname -") == std::string::npos;
    if (!suffix.empty() && is_name && (value.ends_with(')') || value.ends_with('`'))) {
      findings.push_back({"script-master-suffix", Severity::kWarning, setting->line, facts.file,
                          "MASTER_ADDR is the node's plain name; on " + of.profile.name +
                              " the fast network's name has '" + suffix + "' at its end",
                          "export MASTER_ADDR=${MASTER_ADDR}" + suffix});
    }
    if (setting->value.is_known && setting->block == ShellBlock::kNone) {
      findings.push_back({"script-master-address", Severity::kWarning, setting->line, facts.file,
                          "MASTER_ADDR=" + setting->raw + " names one node, which the next job may not get",
                          "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)"});
    }
  });
}

void report_port(const ScriptContext& of, int line, const std::string& file, const std::string& port,
                 ScriptFindings& findings) {
  const auto together = std::ranges::count_if(
      of.file.batch.launches, [](const auto& each) { return each.is_background && !each.is_utility(); });
  if (together < 2 && of.has_whole_nodes()) return;
  findings.push_back({"script-fixed-port", together > 1 ? Severity::kError : Severity::kWarning, line, file,
                      "the port " + port + " is the same in every job: " +
                          (together > 1 ? "programs of this job that run side by side take it from each other"
                                        : "two jobs on one node take it from each other"),
                      "export MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))"});
}

void check_port(const ScriptContext& of, ScriptFindings& findings) {
  for_each_script(of, [&](const ScriptFacts& facts) {
    const auto* setting = facts.exported("MASTER_PORT");
    if (setting != nullptr && setting->value.is_known && parsed_int<int>(setting->value.text)) {
      return report_port(of, setting->line, facts.file, setting->value.text, findings);
    }
    for (const auto& launch : facts.launches) {
      if (!launch.node_launcher) continue;
      for (const auto* name : {"master-port", "main-process-port", "rdzv-endpoint"}) {
        const auto flag = launch.node_launcher->flags.find(name);
        if (flag == launch.node_launcher->flags.end()) continue;
        const auto& text = flag->second.value.text;
        const auto colon = text.rfind(':');
        const auto port =
            std::string_view(name) == "rdzv-endpoint" && colon == std::string::npos ? "" : text.substr(colon + 1);
        if (parsed_int<int>(port).value_or(0) > 0) report_port(of, launch.line, facts.file, port, findings);
      }
    }
  });
}

bool is_own_folder(const std::string& value) {
  constexpr auto kMarks =
      std::to_array<std::string_view>({"JOB_ID", "JOBID", "$$", "mktemp", "RANDOM", "uuid", "TMPDIR"});
  return std::ranges::any_of(kMarks, [&](auto mark) { return value.find(mark) != std::string::npos; });
}

void check_caches(const ScriptContext& of, ScriptFindings& findings) {
  for_each_script(of, [&](const ScriptFacts& facts) {
    std::set<std::string> told;
    for (const auto* name : kCaches) {
      const auto* setting = facts.exported(name);
      if (setting == nullptr || is_own_folder(setting->value.text) || !told.insert(setting->value.text).second)
        continue;
      findings.push_back({"script-cache-shared", Severity::kWarning, setting->line, facts.file,
                          setting->name + "=" + setting->raw +
                              " is the same folder for every job of this user: jobs on one node disturb each other",
                          "put the job's number into the name: …-$SLURM_JOB_ID"});
      for (const auto& removal : facts.removals) {
        const bool is_it = std::ranges::any_of(removal.words, [&](const auto& word) {
          return shell_value(word, facts.variables).text == setting->value.text;
        });
        if (!is_it) continue;
        findings.push_back({"script-cache-erased", Severity::kWarning, removal.line, facts.file,
                            "a starting job erases the folder '" + setting->value.text +
                                "', which another job of this user may be using",
                            "give each job a folder of its own; then nothing need be erased"});
      }
    }
  });
}

void check_missing(const ScriptContext& of, ScriptFindings& findings) {
  const auto& file = of.file;
  // The script that tasks run cannot be read, and may set these variables.
  const auto* launch = file.main_launch();
  if (!file.unread_scripts.empty() || launch == nullptr || launch->is_utility()) return;
  if (of.step_shape(*launch).node_devices().value_or(1) == 0) return;
  std::vector<std::string> missing;
  for (const auto& name : of.profile.cache_variables) {
    if (file.task_setting(name) == nullptr) missing.push_back(name);
  }
  if (!missing.empty()) {
    findings.push_back({"script-cache-unset",
                        Severity::kWarning,
                        launch->line,
                        {},
                        joined(missing, " and ") + (missing.size() > 1 ? " are" : " is") +
                            " not set: all ranks of all jobs write one database in the home folder",
                        "a folder on the node for each job: /tmp/$USER-$SLURM_JOB_ID"});
  }
  const auto site = env_for(of.profile, 2);
  const auto wanted = site.find("NCCL_SOCKET_IFNAME");
  if (wanted == site.end() || !of.spans_nodes()) return;
  const auto* setting = file.task_setting("NCCL_SOCKET_IFNAME");
  if (setting == nullptr) {
    findings.push_back({"script-no-interface",
                        Severity::kWarning,
                        launch->line,
                        {},
                        "NCCL_SOCKET_IFNAME is not set: NCCL may take a slow or unreachable network between nodes",
                        "export NCCL_SOCKET_IFNAME=" + wanted->second});
    return;
  }
  const auto begins = [](const std::string& a, const std::string& b) { return a.starts_with(b) || b.starts_with(a); };
  // "=ib0" means exactly ib0. "^lo" excludes lo, and NCCL chooses among the other interfaces.
  const auto& text = setting->value.text;
  if (text.starts_with('^')) return;
  const auto own = split(text.starts_with('=') ? text.substr(1) : text, ',');
  const bool is_near = std::ranges::any_of(split(wanted->second, ','), [&](const auto& each) {
    return std::ranges::any_of(own, [&](const auto& mine) { return begins(mine, each); });
  });
  if (!setting->value.is_known || is_near) return;
  findings.push_back(
      {"script-other-interface",
       Severity::kWarning,
       setting->line,
       {},
       "NCCL_SOCKET_IFNAME=" + setting->raw + ", but " + of.profile.name + "'s fast network is " + wanted->second,
       "export NCCL_SOCKET_IFNAME=" + wanted->second});
}

/// Checks the script's variables against the table that doctor uses in a job.
void check_dangerous(const ScriptContext& of, ScriptFindings& findings) {
  const auto& profile = of.profile;
  std::set<std::string> here = {"job"};
  if (of.spans_nodes()) here.insert("several-nodes");
  if (profile.devices.count > 0) here.insert({"devices", profile.devices.backend == "rocm" ? "amd" : "nvidia"});
  if (!profile.network.kind.empty()) here.insert("fast-network");
  if (profile.network.kind.starts_with("Slingshot")) here.insert("slingshot");
  for (const auto& variable : dangerous_variables()) {
    if (!std::ranges::all_of(variable.only, [&](const auto& word) { return here.contains(word); })) continue;
    for_each_script(of, [&](const ScriptFacts& facts) {
      const auto* setting = facts.exported(variable.name);
      if (setting == nullptr || !setting->value.is_known || setting->value.text.empty()) return;
      // MASTER_ADDR has a separate check, which knows where it is set.
      if (variable.name == "MASTER_ADDR") return;
      const auto fits = [&](const std::string& pattern) { return fits_pattern(setting->value.text, pattern); };
      if (!variable.values.empty() && std::ranges::none_of(variable.values, fits)) return;
      findings.push_back({variable.code, variable.severity, setting->line, facts.file,
                          variable.name + "='" + setting->value.text + "': " + variable.reason, variable.fix});
    });
  }
}

}  // namespace

void check_script_variables(const ScriptContext& of, ScriptFindings& findings) {
  for_each_script(of, [&](const ScriptFacts& facts) { check_exported(facts, findings); });
  check_early(of, findings);
  check_master(of, findings);
  check_port(of, findings);
  check_caches(of, findings);
  check_missing(of, findings);
  check_dangerous(of, findings);
}

}  // namespace lockstep
