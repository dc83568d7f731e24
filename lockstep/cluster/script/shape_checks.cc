// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/shape_checks.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/job/limits.h"

namespace lockstep {
namespace {

int line_of(const SlurmOptions& options, std::initializer_list<const char*> names) {
  for (const auto* name : names) {
    if (const auto* option = options.find(name)) return option->line;
  }
  return 0;
}

std::string shown(const SlurmOption& option) { return "--" + option.name + "=" + option.value; }

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void check_account(const ScriptContext& of, ScriptFindings& findings) {
  const bool is_given = of.file.options.has("account") || of.env.get("SBATCH_ACCOUNT") || of.env.get("SLURM_ACCOUNT");
  if (!of.profile.slurm.account_required || is_given) return;
  findings.push_back({"script-no-account",
                      Severity::kError,
                      0,
                      {},
                      "no --account, which " + of.profile.name + " wants",
                      "#SBATCH --account=" + std::string("NAME") + " (" + of.profile.slurm.account_form + ")"});
}

void check_time(const ScriptContext& of, ScriptFindings& findings) {
  const auto shape = of.file.shape();
  const auto* option = of.file.options.find("time");
  if (option == nullptr) {
    findings.push_back(
        {"script-no-time",
         Severity::kWarning,
         0,
         {},
         "no --time: the job gets the partition's default, which is short on some systems and the longest on others",
         "#SBATCH --time=HH:MM:SS; a shorter time starts sooner"});
    return;
  }
  const auto* queue = of.queue();
  if (!shape.time || queue == nullptr || queue->limits.empty()) return;
  const int nodes = shape.nodes.value_or(shape.job_nodes().value_or(1));
  const auto limit = time_limit(*queue, nodes);
  if (!limit) {
    findings.push_back({"script-too-many-nodes",
                        Severity::kError,
                        line_of(of.file.options, {"nodes", "ntasks"}),
                        {},
                        "the job asks for " + counted(nodes, "node") + ", which its partition or QOS does not give",
                        "`lockstep profile show " + of.profile.name + "` lists the limits"});
  } else if (limit->count() > 0 && *shape.time > *limit) {
    findings.push_back({"script-time-over",
                        Severity::kError,
                        option->line,
                        {},
                        "--time=" + option->value + " is more than the limit of " +
                            human_seconds(static_cast<double>(limit->count())) + " for " + counted(nodes, "node"),
                        "ask for less, or let `lockstep submit --chain K` go on in a next job"});
  }
}

void check_unread_values(const ScriptContext& of, ScriptFindings& findings) {
  const auto shape = of.file.shape();
  const auto check = [&](const char* name, bool is_read, const char* want) {
    const auto* option = of.file.options.find(name);
    const bool is_told = option != nullptr && option->value.find_first_of("$<") != std::string::npos;
    if (option == nullptr || is_read || is_told) return;
    findings.push_back({"script-bad-value",
                        Severity::kError,
                        option->line,
                        {},
                        "'" + shown(*option) + "' is not " + want,
                        "see `man sbatch`"});
  };
  const auto time = lower(of.file.options.value("time"));
  check("time", shape.time.has_value() || time == "unlimited" || time == "infinite",
        "a time such as 02:00:00 or 1-00:00:00");
  check("mem", shape.memory_mib.has_value(), "an amount such as 96G; a number alone is in MiB");
  check("nodes", shape.nodes.has_value(), "a number such as 4, or a range such as 2-8");
  check("ntasks", shape.tasks.has_value(), "a number");
  check("ntasks-per-node", shape.tasks_per_node.has_value(), "a number");
  check("cpus-per-task", shape.cpus_per_task.has_value(), "a number");
}

/// True if the profile's device may be what a script calls `type`, as "a100" for "NVIDIA A100-SXM4-40GB".
bool may_be_type(const Profile& profile, const std::string& type) {
  return profile.devices.name.empty() || lower(profile.devices.name).find(lower(type)) != std::string::npos ||
         type.find('_') != std::string::npos;
}

void check_gres(const ScriptContext& of, ScriptFindings& findings) {
  // Generic resources (GRES) of some sites that are not devices.
  constexpr auto kOthers =
      std::to_array<std::string_view>({"gpu", "mps", "shard", "nic", "craynetwork", "lustre", "tmpfs", "tmpdisk",
                                       "nvme", "ssd", "localtmp", "bandwidth", "license", "fpga", "mic", "none"});
  const auto* option = of.file.options.find("gres");
  if (option == nullptr) return;
  for (const auto& part : split(option->value, ',')) {
    const auto gres = slurm_gres(part);
    const auto name = gres ? gres->resource : part;
    if (gres && std::ranges::find(kOthers, name) != kOthers.end()) {
      if (name != "gpu" || gres->type.empty() || may_be_type(of.profile, gres->type)) continue;
      findings.push_back({"script-gres-name",
                          Severity::kWarning,
                          option->line,
                          {},
                          "--gres names devices of type '" + gres->type + "', but " + of.profile.name + " has " +
                              of.profile.devices.name,
                          "--gres=gpu:" + std::to_string(gres->count)});
      continue;
    }
    const bool looks_like_device =
        lower(name).find("gpu") != std::string::npos ||
        (gres && gres->type.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0);
    findings.push_back({"script-gres-name",
                        looks_like_device ? Severity::kError : Severity::kNote,
                        option->line,
                        {},
                        "--gres=" + part + " asks for a resource '" + name + "'; Slurm's name for devices is 'gpu'",
                        "--gres=gpu:" + std::to_string(gres ? gres->count : 1)});
  }
}

void check_devices(const ScriptContext& of, ScriptFindings& findings) {
  const auto shape = of.file.shape();
  const auto has = of.profile.devices.count;
  const auto wanted = shape.node_devices();
  if (has == 0 || !wanted) return;
  const int line = line_of(of.file.options, {"gpus-per-node", "gres", "gpus-per-task", "gpus"});
  if (*wanted > has) {
    findings.push_back({"script-too-many-devices",
                        Severity::kError,
                        line,
                        {},
                        counted(*wanted, "device") + " of each node are asked for, but a node of " + of.profile.name +
                            " has " + std::to_string(has),
                        "ask for at most " + std::to_string(has) + " a node, and for more nodes"});
  } else if (*wanted == 0 && line == 0) {
    bool is_step = false;
    for (const auto& launch : of.file.batch.launches) {
      is_step = is_step || of.step_shape(launch).node_devices().value_or(1) > 0;
    }
    findings.push_back(
        {"script-no-devices",
         is_step ? Severity::kError : Severity::kWarning,
         0,
         {},
         "the job asks for no devices: none of the " + std::to_string(has) + " of a node will be visible",
         "#SBATCH --gpus-per-node=" + std::to_string(has)});
  } else if (*wanted<has&& * wanted> 0 && of.has_whole_nodes()) {
    findings.push_back(
        {"script-whole-node",
         Severity::kWarning,
         line,
         {},
         "the job asks for " + counted(*wanted, "device") + " of each node, but gets and pays for whole nodes of " +
             std::to_string(has),
         "use all " + std::to_string(has) + ", or put several runs on the node: lockstep submit --sweep … --pack"});
  }
}

void check_tasks(const ScriptContext& of, ScriptFindings& findings) {
  const auto shape = of.file.shape();
  if (!shape.tasks || !shape.tasks_per_node || !shape.nodes || shape.nodes != shape.max_nodes) return;
  const auto product = std::int64_t{*shape.nodes} * *shape.tasks_per_node;
  if (product == *shape.tasks) return;
  findings.push_back({"script-tasks-conflict",
                      Severity::kWarning,
                      line_of(of.file.options, {"ntasks"}),
                      {},
                      "--ntasks=" + std::to_string(*shape.tasks) + ", but " + counted(*shape.nodes, "node") +
                          " with --ntasks-per-node=" + std::to_string(*shape.tasks_per_node) + " are " +
                          std::to_string(product) + " tasks: Slurm takes --ntasks, and the other as a maximum",
                      "leave --ntasks out"});
}

void check_cores(const ScriptContext& of, ScriptFindings& findings) {
  const auto shape = of.file.shape();
  const auto& profile = of.profile;
  if (profile.sbatch.cores_per_device == 0 || profile.devices.count == 0 || !shape.cpus_per_task) return;
  auto has = profile.sbatch.cores_per_device * profile.devices.count;
  // If the site's own flag turns hyper-threads off, a script without it counts twice as many cores.
  const auto& flags = profile.sbatch.flags;
  const bool is_halved = std::ranges::find(flags, "--threads-per-core=1") != flags.end();
  const bool asks_halved =
      of.file.options.value("threads-per-core") == "1" || of.file.options.value("hint") == "nomultithread";
  if (is_halved && !asks_halved) has *= 2;
  const auto asked = std::int64_t{shape.node_tasks().value_or(1)} * *shape.cpus_per_task;
  if (asked <= has) return;
  findings.push_back({"script-cores-over",
                      Severity::kError,
                      line_of(of.file.options, {"cpus-per-task"}),
                      {},
                      counted(shape.node_tasks().value_or(1), "task") +
                          " with --cpus-per-task=" + std::to_string(*shape.cpus_per_task) + " want " +
                          std::to_string(asked) + " cores of a node, but " + profile.name + " has " +
                          std::to_string(has) + " for jobs: such a job never starts",
                      "--cpus-per-task=" + std::to_string(std::max<std::int64_t>(
                                               1, has / std::max(1, shape.node_tasks().value_or(1))))});
}

void check_memory(const ScriptContext& of, ScriptFindings& findings) {
  constexpr std::int64_t kLeastMib = 2048;  // A rank with PyTorch, NCCL and a loader takes about so much at its start.
  const auto shape = of.file.shape();
  if (!shape.memory_mib || *shape.memory_mib == 0) return;
  const auto* option = of.file.options.find("mem");
  const auto mib = *shape.memory_mib;
  const auto has = of.profile.node.memory_gib * 1024;
  const auto ranks = std::max(shape.node_tasks().value_or(1), shape.node_devices().value_or(1));
  if (has > 0 && mib > has) {
    findings.push_back(
        {"script-memory-over",
         Severity::kError,
         option->line,
         {},
         shown(*option) + " is more than the " + std::to_string(has / 1024) + " GiB of a node: such a job never starts",
         "--mem=0 takes all of a node"});
    return;
  }
  const bool has_unit = std::isalpha(static_cast<unsigned char>(option->value.back())) != 0;
  const bool is_slip = !has_unit && mib < 1024;  // "--mem=64" meant 64G.
  const bool has_devices = shape.node_devices().value_or(1) > 0;
  if (!is_slip && (!has_devices || mib >= kLeastMib * ranks)) return;
  findings.push_back({"script-memory-low",
                      is_slip ? Severity::kError : Severity::kWarning,
                      option->line,
                      {},
                      shown(*option) + " is " + human_bytes(static_cast<std::uint64_t>(mib) << 20U) + " for " +
                          counted(ranks, "rank") + " of a node; want 2 GiB or more for each" +
                          (has_unit ? "" : " (a number without a unit is in MiB)"),
                      has_unit ? "ask for more" : "--mem=" + option->value + "G"});
}

void check_partition(const ScriptContext& of, ScriptFindings& findings) {
  const auto* option = of.file.options.find("partition");
  const auto& known = of.profile.partitions;
  if (option == nullptr || known.empty()) return;
  for (const auto& part : split(option->value, ',')) {
    if (known.contains(part)) return;
  }
  const auto names = map_each(known, [](const auto& each) { return each.first; });
  findings.push_back({"script-partition",
                      Severity::kNote,
                      option->line,
                      {},
                      "the profile " + of.profile.name + " does not know the partition '" + option->value +
                          "'; it knows " + joined(names, ", "),
                      "`sinfo -s` lists all; limits could not be checked"});
}

}  // namespace

void check_script_shape(const ScriptContext& of, ScriptFindings& findings) {
  check_account(of, findings);
  check_time(of, findings);
  check_unread_values(of, findings);
  check_gres(of, findings);
  check_devices(of, findings);
  check_tasks(of, findings);
  check_cores(of, findings);
  check_memory(of, findings);
  check_partition(of, findings);
}

}  // namespace lockstep
