// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/our_request.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/shell_text.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/script/signal_option.h"
#include "lockstep/recipe/raw_setting.h"

namespace lockstep {
namespace {

std::string clock_text(std::chrono::seconds time) {
  const auto all = time.count();
  return zero_padded(all / 3600, 2) + ":" + zero_padded(all / 60 % 60, 2) + ":" + zero_padded(all % 60, 2);
}

/// Options that Lockstep's script sets in its own way, so that the old script's line is not taken over.
constexpr auto kAnswered = std::to_array<std::string_view>({"nodes",
                                                            "ntasks",
                                                            "ntasks-per-node",
                                                            "cpus-per-task",
                                                            "gres",
                                                            "gpus",
                                                            "gpus-per-node",
                                                            "gpus-per-task",
                                                            "time",
                                                            "account",
                                                            "partition",
                                                            "qos",
                                                            "job-name",
                                                            "output",
                                                            "error",
                                                            "mem",
                                                            "signal",
                                                            "requeue",
                                                            "no-requeue",
                                                            "open-mode",
                                                            "export",
                                                            "chdir",
                                                            "threads-per-core",
                                                            "constraint",
                                                            "array",
                                                            "mem-per-gpu",
                                                            "mem-per-cpu",
                                                            "cpu-bind",
                                                            "gpu-bind",
                                                            "gpus-per-socket",
                                                            "ntasks-per-gpu",
                                                            "parsable",
                                                            "hint"});

/// Variables that `lockstep exec` sets in each task.
bool is_set_by_exec(const Profile& profile, const std::string& name) {
  constexpr auto kOwn = std::to_array<std::string_view>(
      {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "CUDA_VISIBLE_DEVICES",
       "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "SRUN_CPUS_PER_TASK"});
  if (std::ranges::find(kOwn, name) != kOwn.end() || name.starts_with("PET_") || name.starts_with("SLURM_"))
    return true;
  return env_for(profile, 2).contains(name) ||
         std::ranges::find(profile.cache_variables, name) != profile.cache_variables.end();
}

/// Writes a word for a shell in the task. That shell knows the job's variables, but not the variables of the batch
/// script.
std::string for_shell(const LaunchWord& word) {
  if (word.value.is_known) return shell_quoted(word.value.text);
  const bool has_quotes = word.value.text.find('"') != std::string::npos;
  return has_quotes ? word.raw : "\"" + word.value.text + "\"";
}

class Translation {
 public:
  Translation(const ScriptContext& of, const SubmitRequest& flags) : of_(of), into_{.request = flags} {
    for (const auto& each : flags.settings) given_.insert(each.key);
    script_settings_ = std::move(into_.request.settings);
    into_.request.settings.clear();
  }

  OurRequest take(const LaunchLine& launch) {
    into_.arguments = {"lockstep", "submit"};
    if (!into_.request.cluster.empty() && into_.request.cluster != "auto") add("--cluster", into_.request.cluster);
    take_typed_flags();
    take_shape(launch);
    take_queue();
    take_end();
    take_other_options();
    take_software(launch);
    take_given();
    take_program(launch);
    into_.request.is.dry_run = true;
    return std::move(into_);
  }

 private:
  void add(const std::string& flag, const std::string& value) {
    into_.arguments.push_back(flag);
    into_.arguments.push_back(value);
  }

  void leave_out(int line, const std::string& text, const std::string& reason) {
    into_.left_out.push_back("line " + std::to_string(line) + ", " + text + ": " + reason);
  }

  void set(const std::string& flag, const std::string& key, const std::string& value, const std::string& toml) {
    if (given_.contains(key)) return;
    add(flag, value);
    into_.request.settings.push_back({key, toml, {SettingSource::kFlag, flag}});
  }

  /// Adds the options that the user typed beside --from, so that the printed command is complete.
  void take_typed_flags() {
    const auto& request = into_.request;
    if (!request.run_dir.empty()) add("--run-dir", request.run_dir);
    if (!request.flags.name.empty()) add("--name", request.flags.name);
    if (!request.signal.empty()) add("--signal", request.signal);
    if (!request.stage_data.empty()) add("--stage-data", request.stage_data);
    if (!request.requeue.empty()) add("--requeue", request.requeue);
    if (request.flags.devices) add("--devices", std::to_string(*request.flags.devices));
    if (request.flags.tasks) add("--tasks-per-node", std::to_string(*request.flags.tasks));
    if (request.flags.cores_per_task) add("--cores-per-task", std::to_string(*request.flags.cores_per_task));
    for (const auto& text : request.flags.sets) add("--set", text);
    for (const auto& flag : request.flags.sbatch) into_.arguments.push_back("--sbatch=" + flag);
  }

  /// True if the tasks run a shell script that starts ranks itself, or one that cannot be read. The number of tasks is
  /// then part of how the script works, and is kept.
  bool keeps_tasks(const LaunchLine& launch) const {
    if (!launch.shell_text() && !launch.shell_script()) return false;
    const auto starts_ranks = [](const ScriptFacts& facts) {
      return std::ranges::any_of(facts.launches, [](const auto& each) { return each.node_launcher.has_value(); });
    };
    return !of_.file.unread_scripts.empty() || std::ranges::any_of(of_.file.task_scripts, starts_ranks);
  }

  void take_shape(const LaunchLine& launch) {
    auto& flags = into_.request.flags;
    const auto shape = of_.step_shape(launch);
    const auto nodes = shape.nodes ? shape.nodes : shape.job_nodes();
    if (nodes) set("--nodes", "cluster.nodes", std::to_string(*nodes), std::to_string(*nodes));
    const auto devices = shape.node_devices();
    const auto tasks = shape.node_tasks();
    if (devices && *devices > 0 && !flags.devices) {
      flags.devices =
          of_.profile.devices.count > 0 ? std::min(*devices, static_cast<int>(of_.profile.devices.count)) : *devices;
      add("--devices", std::to_string(*flags.devices));
    }
    const bool has_devices = flags.devices.value_or(static_cast<int>(of_.profile.devices.count)) > 0;
    // Lockstep's script starts one task for each device. Without devices, the old script's number of tasks is kept.
    if (!has_devices && tasks && !launch.node_launcher && !flags.tasks) {
      flags.tasks = tasks;
      add("--tasks-per-node", std::to_string(*tasks));
    }
    if (has_devices && !flags.tasks && keeps_tasks(launch) && tasks) {
      flags.tasks = tasks;
      add("--tasks-per-node", std::to_string(*tasks));
    }
    const bool is_one_each = !has_devices || (tasks && devices && *tasks == *devices);
    if (shape.cpus_per_task && is_one_each && of_.profile.sbatch.cores_per_device == 0 && !flags.cores_per_task) {
      flags.cores_per_task = shape.cpus_per_task;
      add("--cores-per-task", std::to_string(*shape.cpus_per_task));
    }
  }

  void take_queue() {
    const auto& options = of_.file.options;
    if (const auto time = of_.file.shape().time; time && time->count() > 0) {
      set("--time", "cluster.time", clock_text(*time), toml_quoted(clock_text(*time)));
    }
    for (const auto* name : {"account", "partition", "qos"}) {
      const auto value = options.value(name);
      if (!value.empty()) set(std::string("--") + name, std::string("cluster.") + name, value, toml_quoted(value));
    }
    const auto name = options.value("job-name");
    if (name.empty() || !into_.request.flags.name.empty()) return;
    into_.request.flags.name = name;
    add("--name", name);
  }

  /// Takes over the signal before the time limit, and whether the job may run twice.
  void take_end() {
    auto& request = into_.request;
    const auto& options = of_.file.options;
    const auto* no = options.find("no-requeue");
    const auto* yes = options.find("requeue");
    if (no != nullptr && (yes == nullptr || yes < no) && request.requeue.empty()) {
      request.requeue = "no";
      add("--requeue", "no");
    }
    const auto* option = options.find("signal");
    if (option == nullptr || !request.signal.empty()) return;
    const auto signal = signal_request(option->value, of_.file.lines);
    if (signal.value.empty()) return leave_out(option->line, "--signal=" + option->value, signal.left_out);
    request.signal = signal.value;
    add("--signal", signal.value);
  }

  void take_other_options() {
    const auto keep = [&](const SlurmOption& option) {
      const auto flag = "--" + option.name + (option.value.empty() ? "" : "=" + option.value);
      into_.request.flags.sbatch.push_back(flag);
      into_.arguments.push_back("--sbatch=" + flag);
    };
    const auto& profile = of_.profile;
    for (const auto& option : of_.file.options.list) {
      if (&option != of_.file.options.find(option.name)) continue;
      const bool is_answered = std::ranges::find(kAnswered, option.name) != kAnswered.end();
      const bool has_own = std::ranges::any_of(profile.sbatch.flags,
                                               [&](const auto& flag) { return flag.starts_with("--" + option.name); });
      const bool knows_memory = !profile.sbatch.memory.empty() || !profile.sbatch.memory_per_device.empty();
      const bool is_memory = option.name.starts_with("mem") && option.name != "mem-bind";
      const bool is_hint = option.name == "threads-per-core" || option.name == "hint" || option.name == "constraint";
      if (!is_answered || (is_hint && !has_own) || (is_memory && !knows_memory)) keep(option);
      if (option.name == "array")
        leave_out(option.line, "--array=" + option.value, "ours makes a job of each value: --sweep");
      if (option.name == "chdir")
        leave_out(option.line, "--chdir=" + option.value, "ours starts in the folder that you submit from");
    }
  }

  void take_modules(const ScriptActivation& each, std::vector<std::string>& modules) {
    const bool is_load = each.words.size() > 2 && (each.words[1] == "load" || each.words[1] == "add");
    const bool is_short = each.words.front() == "ml" && each.words.size() > 1 && !each.words[1].starts_with('-') &&
                          each.words[1] != "purge" && each.words[1] != "use" && each.words[1] != "unload";
    if (!is_load && !is_short) return leave_out(each.line, each.text, "the profile's own lines stand in its place");
    for (std::size_t i = is_load ? 2 : 1; i < each.words.size(); ++i) modules.push_back(each.words[i]);
  }

  void take_software(const LaunchLine& launch) {
    std::vector<std::string> modules;
    std::vector<std::string> setup;
    for (const auto& folder : of_.file.batch.folders) {
      leave_out(folder.line, joined(folder.words, " "), "ours starts in the folder that you submit from");
    }
    for (const auto& each : of_.file.batch.activations) {
      if (each.kind == "module") {
        take_modules(each, modules);
      } else if (each.kind == "conda" && !each.words.empty()) {
        set("--conda", "cluster.conda", each.words.back(), toml_quoted(each.words.back()));
      } else {
        setup.push_back(each.text);
      }
    }
    if (!modules.empty() && !given_.contains("cluster.modules")) {
      const auto quoted = map_each(modules, [](const std::string& each) { return toml_quoted(each); });
      const auto text = "cluster.modules=[" + joined(quoted, ", ") + "]";
      into_.request.flags.sets.push_back(text);
      add("--set", text);
    }
    take_environment(setup);
    take_list("--setup", "cluster.setup", setup);
    if (launch.container.image.empty()) return;
    set("--container", "cluster.container", launch.container.image, toml_quoted(launch.container.image));
    auto binds = launch.container.binds;
    std::erase_if(binds, [&](const auto& bind) {
      return std::ranges::find(of_.profile.container.binds, bind) != of_.profile.container.binds.end();
    });
    take_list("--bind", "cluster.binds", binds);
  }

  void take_environment(std::vector<std::string>& setup) {
    std::vector<std::string> env;
    for (const auto& setting : of_.file.batch.settings) {
      if (of_.file.batch.exported(setting.name) != &setting) continue;
      if (is_set_by_exec(of_.profile, setting.name)) {
        leave_out(setting.line, setting.name, "`lockstep exec` sets it in each task");
      } else if (setting.value.is_known && setting.block == ShellBlock::kNone) {
        env.push_back(setting.name + "=" + setting.value.text);
      } else {
        setup.push_back("export " + setting.name + "=" + setting.raw);
      }
    }
    take_list("--env", "cluster.env", env);
  }

  void take_list(const std::string& flag, const std::string& key, const std::vector<std::string>& values) {
    if (values.empty() || given_.contains(key)) return;
    std::vector<std::string> quoted;
    for (const auto& each : values) {
      add(flag, each);
      quoted.push_back(toml_quoted(each));
    }
    into_.request.settings.push_back({key, "[" + joined(quoted, ", ") + "]", {SettingSource::kFlag, flag}});
  }

  /// Adds the options that the user typed beside --from.
  void take_given() {
    for (auto& each : script_settings_) {
      auto value = each.value;
      if (value.size() > 1 && value.front() == '"') value = value.substr(1, value.size() - 2);
      add(each.origin.where, value);
      into_.request.settings.push_back(std::move(each));
    }
  }

  void take_program(const LaunchLine& launch) {
    auto& program = into_.request.flags.program;
    program.clear();
    if (launch.node_launcher && launch.node_launcher->name != "lockstep") {
      program = {"python", "-u"};
      if (launch.node_launcher->flags.contains("module") || launch.node_launcher->flags.contains("m"))
        program.emplace_back("-m");
      leave_out(launch.line, launch.node_launcher->name, "ours starts a task for each device by itself");
    }
    bool is_known = true;
    std::vector<std::string> raw = program;
    for (const auto& word : launch.program) {
      is_known = is_known && word.value.is_known;
      program.push_back(word.value.text);
      raw.push_back(for_shell(word));
    }
    // If only the job's shell knows a value, a shell in each task expands it.
    if (!is_known) program = {"bash", "-c", "exec " + joined(raw, " ")};
    into_.arguments.emplace_back("--");
    into_.arguments.insert(into_.arguments.end(), program.begin(), program.end());
  }

  const ScriptContext& of_;
  OurRequest into_;
  std::set<std::string> given_;
  std::vector<Override> script_settings_;
};

}  // namespace

OurRequest our_request(const ScriptContext& of, const SubmitRequest& flags) {
  if (!flags.flags.program.empty() || !flags.flags.recipe.empty()) {
    throw Error(ErrorKind::kUsage,
                "--from takes the program from '" + of.file.name + "', but another one was given too",
                "lockstep submit --from " + of.file.name + ", and then the command that it prints");
  }
  const bool has_lists =
      std::ranges::any_of(flags.settings, [](const auto& each) { return each.value.starts_with('['); });
  if (!flags.sweeps.empty() || flags.is.interactive || flags.is.pack || flags.chain > 0 || !flags.stage.empty() ||
      has_lists) {
    throw Error(ErrorKind::kUsage,
                "--from goes with flags of one value, but --sweep, --pack, --chain, --stage, --interactive, --env, "
                "--bind or --setup was given",
                "add it to the command that lockstep submit --from " + of.file.name + " prints");
  }
  const auto* launch = of.file.main_launch();
  if (launch == nullptr || launch->program.empty()) {
    throw Error(ErrorKind::kUsage,
                "'" + of.file.name + "' has no line that starts a program by srun, mpirun, torchrun or python",
                "give the program yourself: lockstep submit --nodes N -- CMD…");
  }
  return Translation(of, flags).take(*launch);
}

}  // namespace lockstep
