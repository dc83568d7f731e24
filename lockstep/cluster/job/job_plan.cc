// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/job_plan.h"

#include <algorithm>
#include <cctype>

#include "lockstep/base/error.h"
#include "lockstep/base/shell_text.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/job/limits.h"
#include "lockstep/cluster/job/nested_launcher.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

/// Multiplies an amount of memory: "60G" times 8 is "480G".
std::string times(const std::string& amount, int factor) {
  const auto unit = std::ranges::find_if_not(amount, [](unsigned char c) { return std::isdigit(c) != 0; });
  const auto number = parsed_int<long long>(std::string_view(amount.begin(), unit));
  if (!number) {
    throw Error(ErrorKind::kRecipe, "'" + amount + "' is not an amount of memory, want a number and a unit",
                "for example \"60G\"");
  }
  return std::to_string(*number * factor) + std::string(unit, amount.end());
}

std::string memory_of(const ResolvedShape& size, const Profile& profile) {
  const bool is_all = size.has_whole_nodes || size.devices == profile.devices.count;
  if (is_all && !profile.sbatch.memory.empty()) return profile.sbatch.memory;
  if (size.devices == 0 || profile.sbatch.memory_per_device.empty()) return {};
  return times(profile.sbatch.memory_per_device, size.devices);
}

int tasks_of(const RequestedShape& shape, int devices) {
  if (shape.tasks) return *shape.tasks;
  return std::max(devices, 1);
}

void check_range(const RequestedShape& shape) {
  const int least = shape.least_nodes.value_or(shape.nodes);
  const bool is_whole = shape.node_step >= 1 && (shape.nodes - least) % shape.node_step == 0;
  if (least >= 1 && least <= shape.nodes && is_whole) return;
  throw Error(ErrorKind::kUsage,
              "--nodes asks for " + std::to_string(least) + " to " + std::to_string(shape.nodes) +
                  " nodes in steps of " + std::to_string(shape.node_step) +
                  ", want a range that rises and ends on a step",
              "for example --nodes 2-16, or --nodes 2-16:2");
}

void require_positive(const RequestedShape& shape) {
  const auto refuse = [](const char* flag, int value, const char* least) {
    throw Error(ErrorKind::kUsage, std::string(flag) + " is " + std::to_string(value) + ", want " + least + " or more",
                "leave it out to take what the profile says");
  };
  if (shape.nodes < 1) refuse("--nodes", shape.nodes, "1");
  check_range(shape);
  if (shape.devices && *shape.devices < 0) refuse("--devices", *shape.devices, "0");
  if (shape.tasks && *shape.tasks < 1) refuse("--tasks-per-node", *shape.tasks, "1");
  if (shape.cores_per_task && *shape.cores_per_task < 1) refuse("--cores-per-task", *shape.cores_per_task, "1");
}

/// Returns the cores of each task. These are the cores of the task's devices, or its share of a node without devices.
int share_of_cores(const ResolvedShape& size, const Profile& profile) {
  const bool has_none = profile.devices.count == 0 && size.devices == 0;
  if (has_none) return static_cast<int>(profile.sbatch.cores) / size.tasks;
  // If the job has whole nodes, its tasks get all cores of the nodes, also the cores of devices that are not used.
  const bool takes_all = size.has_whole_nodes && size.devices > 0 && profile.devices.count > size.devices;
  const auto shares = takes_all ? profile.devices.count : size.devices;
  return static_cast<int>(profile.sbatch.cores_per_device * shares) / size.tasks;
}

ResolvedShape size_of(const RequestedShape& shape, const JobQueue& queue, const Profile& profile) {
  require_positive(shape);
  ResolvedShape size;
  size.nodes = shape.nodes;
  size.least_nodes = shape.least_nodes.value_or(shape.nodes);
  size.node_step = shape.node_step;
  size.devices = shape.devices.value_or(static_cast<int>(profile.devices.count));
  size.tasks = tasks_of(shape, size.devices);
  if (size.devices > 0 && size.devices % size.tasks != 0) {
    throw Error(ErrorKind::kUsage,
                std::to_string(size.devices) + " devices of a node cannot be shared evenly by " +
                    std::to_string(size.tasks) + " tasks",
                "--tasks-per-node " + std::to_string(size.devices) + " gives each task one device");
  }
  const auto known = known_queue(profile, queue.qos, queue.partition);
  size.has_whole_nodes = known != nullptr && known->whole_node;
  size.cores_per_task = shape.cores_per_task.value_or(share_of_cores(size, profile));
  size.memory = memory_of(size, profile);
  return size;
}

JobBilling billing_of(const ResolvedShape& size, const Profile& profile) {
  auto node = node_billing(profile, size.devices, size.tasks * size.cores_per_task, size.has_whole_nodes);
  return {.unit = std::move(node.unit), .per_hour = node.per_hour * size.nodes};
}

JobQueue filled_in(JobQueue queue, const Profile& profile) {
  if (queue.qos.empty() && queue.partition.empty()) queue.qos = profile.slurm.qos;
  if (queue.partition.empty()) queue.partition = profile.slurm.partition;
  if (!queue.time) queue.time = profile.slurm.time;
  if (queue.account.empty()) queue.account = profile.slurm.account;
  return queue;
}

/// Returns the time from the warning to the limit, which is less in a short job. Slurm may send the signal up to a
/// minute early (sbatch(1)). Its controller looks every 30 s, and warns half a minute too early rather than too late
/// (job_time_limit() in src/slurmctld/job_mgr.c). Slurm warns once. If a slow node has not started the script by then,
/// the warning is lost. So 45 s pass at least. A recipe needs no warning. It reads LOCKSTEP_JOB_END, which the script
/// exports, and knows how long its saves take.
std::chrono::seconds lead_of(const JobQueue& queue, const Profile& profile, const JobProgram& program) {
  if (program.is_recipe) return 0s;
  if (queue.signal) {
    if (queue.signal->before < *queue.time) return queue.signal->before;
    throw Error(ErrorKind::kUsage,
                "--signal: " + std::to_string(queue.signal->before.count()) + " s before the end of a job of " +
                    std::to_string(queue.time->count()) + " s is before its begin",
                "leave the program time to work: fewer seconds after the @, or a longer --time");
  }
  const auto lead = std::min(profile.sbatch.signal_lead, *queue.time / 10);
  constexpr auto kBegin = 45s;
  const auto most = std::min(*queue.time / 2, std::max<std::chrono::seconds>(*queue.time - kBegin, 1s));
  return std::min(std::max<std::chrono::seconds>(lead, 60s), most);
}

std::map<std::string, std::string> template_values(const ResolvedShape& size, const Profile& profile) {
  return {{"nodes", std::to_string(size.nodes)},
          {"devices", std::to_string(size.devices)},
          {"tasks", std::to_string(size.tasks)},
          {"cores", std::to_string(size.cores_per_task)},
          {"masks", joined(profile.devices.cpu_masks, ",")}};
}

void append_expanded(std::vector<std::string>& out, const std::vector<std::string>& flags,
                     const std::map<std::string, std::string>& values) {
  for (const auto& flag : flags) out.push_back(expand_template(flag, values));
}

std::vector<std::string> sbatch_flags(const ResolvedShape& size, const Profile& profile) {
  std::vector<std::string> flags;
  const auto values = template_values(size, profile);
  append_expanded(flags, profile.sbatch.flags, values);
  if (size.nodes > 1) append_expanded(flags, profile.sbatch.many_nodes, values);
  return flags;
}

std::vector<std::string> srun_flags(const ResolvedShape& size, const Profile& profile, const JobProgram& program) {
  std::vector<std::string> flags;
  const auto values = template_values(size, profile);
  append_expanded(flags, profile.srun.flags, values);
  const bool is_one_each = size.devices > 0 && size.tasks == size.devices;
  if (is_one_each) append_expanded(flags, profile.srun.devices, values);
  // The site's masks name the cores for all devices of a node, so the job needs them all.
  if (is_one_each && size.has_whole_nodes && size.devices == profile.devices.count) {
    append_expanded(flags, profile.srun.whole_nodes, values);
  }
  if (program.is_recipe) {
    // Ranks of a recipe notice a dead rank by themselves, so srun need not kill them. When the time is up, each rank
    // exits with 75. If srun killed the others after the first exit, srun's own code would not be 75, and the run would
    // not continue.
    std::erase_if(flags, [](const auto& flag) { return flag.starts_with("--kill-on-bad-exit"); });
    flags.insert(flags.end(), {"--kill-on-bad-exit=0", "--wait=300"});
  }
  return flags;
}

std::map<std::string, std::string> variables_of(const ResolvedShape& size, const Profile& profile) {
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : env_for(profile, size.nodes)) variables[name] = value;
  const auto& devices = profile.devices;
  if (devices.order.empty() || size.devices != devices.count) return variables;
  std::vector<std::string> order;
  for (const auto index : devices.order) order.push_back(std::to_string(index));
  variables[devices.backend == "rocm" ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES"] = joined(order, ",");
  return variables;
}

std::vector<std::string> module_lines(const JobSoftware& software, const Profile& profile) {
  const auto& modules = profile.modules;
  std::vector<std::string> lines = software.container.empty() ? modules.before : modules.container;
  const auto load = software.modules             ? *software.modules
                    : software.container.empty() ? modules.load
                                                 : std::vector<std::string>{};
  if (!load.empty()) lines.push_back("module load " + joined(load, " "));
  if (software.container.empty() && !load.empty())
    lines.insert(lines.end(), modules.after.begin(), modules.after.end());
  return lines;
}

ProfileContainer container_of(const JobSoftware& software, const Profile& profile) {
  ProfileContainer container = profile.container;
  container.image = software.container;
  container.binds.insert(container.binds.end(), software.binds.begin(), software.binds.end());
  if (software.stage.kind != StageKind::kNone) container.binds.emplace_back("$LOCKSTEP_STAGED");
  const auto& data = software.data;
  if (!data.from.empty()) {
    container.binds.push_back("$LOCKSTEP_DATA_HERE" + (data.inside.empty() ? std::string() : ":" + data.inside));
    container.binds.emplace_back("$LOCKSTEP_RESULTS");
  }
  return container;
}

/// True for a launcher that torchrun can replace, also on several nodes.
bool starts_over_nodes(const NestedLauncher& launcher) {
  return launcher.name.starts_with("torch") || launcher.name.starts_with("accelerate") || launcher.name == "deepspeed";
}

/// True if a command of DeepSpeed's launcher itself says on which nodes ranks run.
bool names_hosts(const std::vector<std::string>& command) {
  return std::ranges::any_of(command, [](const auto& word) {
    return word == "-H" || word.starts_with("--hostfile") || word.starts_with("--launcher") || word == "--no_ssh";
  });
}

void refuse_nesting(const JobPlan& plan) {
  const auto nested = nested_launcher(plan.program.command);
  if (!nested) return;
  const auto& size = plan.size;
  const auto with_torchrun = [&] {
    const int ranks = std::max(1, size.devices);
    auto launched = nested->launched;
    if (!launched.empty()) launched.erase(launched.begin());  // Its Python: torchrun has its own.
    return "lockstep submit --nodes " + std::to_string(size.nodes) +
           " --tasks-per-node 1 -- torchrun --nproc_per_node=" + std::to_string(ranks) + " " +
           (launched.empty() ? "train.py" : shell_quoted(launched));
  };
  if (size.tasks == 1 && size.nodes > 1 && nested->name == "deepspeed" && !names_hosts(plan.program.command)) {
    throw Error(ErrorKind::kUsage,
                "deepspeed without a host file starts ranks on its own node only: " + std::to_string(size.nodes) +
                    " nodes would train as many separate models",
                "torchrun starts DeepSpeed programs over nodes: " + with_torchrun());
  }
  if (size.tasks == 1) return;
  throw Error(
      ErrorKind::kUsage,
      nested->name + " starts ranks of its own, and would be started " + std::to_string(size.tasks) +
          " times on each node, once for each task",
      "leave it out, each task is a rank already: -- " +
          (nested->launched.empty() ? "python train.py" : joined(nested->launched, " ")) +
          (starts_over_nodes(*nested) ? "; or keep a launcher, one on each node: " + with_torchrun()
                                      : "; or keep it, and let it start the ranks of a node: --tasks-per-node 1"));
}

void check_env(const std::vector<std::string>& env) {
  for (const auto& each : env) {
    const auto name = each.substr(0, each.find('='));
    const bool is_name = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
                         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (is_name && name.size() < each.size()) continue;
    throw Error(ErrorKind::kRecipe, "cluster.env: '" + each + "' sets no variable, want NAME=value",
                "for example env = [\"HF_HOME=/scratch/me/hf\"]");
  }
}

}  // namespace

std::string ResolvedShape::nodes_text(int spares) const {
  if (spares > 0) return std::to_string(nodes + spares);
  return nodes_text();
}

std::string ResolvedShape::nodes_text() const {
  if (!is_range()) return std::to_string(nodes);
  const auto range = std::to_string(least_nodes) + "-" + std::to_string(nodes);
  return node_step == 1 ? range : range + ":" + std::to_string(node_step);
}

JobPlan job_plan(const JobRequest& request, const Profile& profile) {
  JobPlan plan;
  plan.cluster = profile.name;
  plan.queue = filled_in(request.queue, profile);
  plan.size = size_of(request.shape, plan.queue, profile);
  plan.signal_lead = lead_of(plan.queue, profile, request.program);
  plan.can_requeue = profile.sbatch.requeue && plan.queue.goes_on;
  if (plan.size.devices > 0)
    plan.devices_flag = expand_template(profile.sbatch.devices, template_values(plan.size, profile));
  plan.sbatch = sbatch_flags(plan.size, profile);
  plan.stage = request.software.stage;
  plan.data = request.software.data;
  // The staged software and the staged data are on the same disk.
  const auto& disk = plan.stage.flag.empty() ? plan.data.flag : plan.stage.flag;
  if (!disk.empty()) plan.sbatch.push_back(disk);
  plan.sbatch.insert(plan.sbatch.end(), request.sbatch.begin(), request.sbatch.end());
  plan.srun = srun_flags(plan.size, profile, request.program);
  plan.before = module_lines(request.software, profile);
  plan.conda = request.software.conda;
  plan.env = variables_of(plan.size, profile);
  check_env(request.software.env);
  plan.own_env = request.software.env;
  plan.setup = request.software.setup;
  plan.setup_once = request.software.setup_once;
  plan.container = container_of(request.software, profile);
  plan.backend = profile.devices.backend;
  plan.has_container_modules = !profile.modules.container.empty();
  plan.program = request.program;
  plan.paths = request.paths;
  plan.exports_nothing = profile.sbatch.export_mode == "NONE";
  plan.is_offline = !profile.storage.internet;
  plan.tunnel = profile.software.tunnel;
  plan.billing = billing_of(plan.size, profile);
  plan.login = profile.software.login.empty() ? request.paths.host : profile.software.login;
  refuse_nesting(plan);
  check_limits(plan, profile);
  return plan;
}

}  // namespace lockstep
