// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/draft_slurm.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "lockstep/base/clock.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Lists names, such as "n3, n4" or "n1, n2, n3 and 97 more".
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 3;
  if (names.size() <= kMost + 1) return joined(names, ", ");
  return joined(std::span(names).first(kMost), ", ") + " and " + std::to_string(names.size() - kMost) + " more";
}

/// Returns the runtime for a GRES type, by the makers' product names. Empty for an unknown name.
std::string backend_by_type(const std::string& type) {
  static constexpr std::array<std::string_view, 6> kAmd = {"mi", "gfx", "amd", "radeon", "instinct", "vega"};
  static constexpr std::array<std::string_view, 17> kNvidia = {"a100",  "a10",  "a30",    "a40",   "h100",  "h200",
                                                               "gh200", "b200", "gb200",  "v100",  "p100",  "t4",
                                                               "l4",    "rtx",  "nvidia", "tesla", "quadro"};
  const auto name = lower(type);
  const auto begins = [&](std::string_view with) { return name.starts_with(with); };
  const bool is_mi = name.size() > 2 && begins("mi") && std::isdigit(static_cast<unsigned char>(name[2])) != 0;
  if (is_mi || std::any_of(kAmd.begin() + 1, kAmd.end(), begins)) return "rocm";
  return std::ranges::any_of(kNvidia, begins) ? "cuda" : "";
}

bool is_memory_shared_out(const MachineFacts& facts) {
  return lower(facts.setting("SelectTypeParameters")).find("memory") != std::string::npos;
}

void draft_backend(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue) {
  auto& devices = draft.profile.devices;
  const auto& node = facts.answers.node;
  if (node && !node->devices.empty()) {
    devices.backend = node->devices.front().is_amd ? "rocm" : "cuda";
    return draft.note("devices.backend", "the drivers of " + node->host);
  }
  devices.backend = backend_by_type(queue.nodes.device_type);
  if (devices.backend.empty()) {
    return draft.gap("devices.backend", "cuda or rocm: `lockstep profile new --live`, or `srun nvidia-smi -L` there");
  }
  draft.note("devices.backend", "by the name of the GRES type");
  draft.profile.about.unverified.emplace_back("devices.backend");
}

void draft_device_places(ProfileDraft& draft, const MachineFacts& facts) {
  auto& devices = draft.profile.devices;
  const auto& node = facts.answers.node;
  const bool tells = node && std::ssize(node->devices) == devices.count &&
                     std::ranges::all_of(node->devices, [](const auto& each) { return each.numa >= 0; });
  if (!tells) {
    return draft.gap("devices.numa",
                     "the NUMA domain of each device: " +
                         (node ? "the kernel of " + node->host + " does not say"
                               : std::string("`lockstep profile new --live`, or `nvidia-smi topo -m`")));
  }
  for (const auto& each : node->devices) devices.numa.push_back(each.numa);
  draft.note("devices.numa", "/sys/bus/pci/devices/*/numa_node of " + node->host);
}

void draft_devices(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue) {
  auto& devices = draft.profile.devices;
  const auto& nodes = queue.nodes;
  devices.count = nodes.devices;
  if (nodes.devices == 0) {
    const auto types = facts.setting("GresTypes");
    return draft.note("devices.count", types.empty()
                                           ? "scontrol show config: no GresTypes, so Slurm hands out no devices"
                                           : "scontrol show node: no gpu in Gres of " + some_of(nodes.names));
  }
  draft.note("devices.count", "scontrol show node: Gres=" + nodes.gres + " of " + some_of(nodes.names));
  if (!nodes.device_type.empty()) {
    devices.name = nodes.device_type;
    draft.note("devices.name", "the GRES type");
  }
  draft_backend(draft, facts, queue);
  draft_device_places(draft, facts);
  draft.gap("devices.memory_gib", "of one device: `srun --gpus=1 nvidia-smi` or `rocm-smi` there, or its data sheet");
  draft.gap("devices.peak_tflops", "`lockstep plan` needs them: the device's data sheet, as in \"bf16 312\"");
}

/// Sets the flag that requests a number of a node's devices. It includes the type if the partition has several.
void draft_device_flag(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue) {
  const auto& type = queue.nodes.device_type;
  const bool are_mixed =
      !type.empty() && std::ranges::any_of(queue.others, [&](const auto& other) { return other.devices > 0; });
  // Of Slurm's plugins for selecting resources, only cons_tres knows --gpus-per-node (sbatch(1)).
  const bool has_flag = facts.setting("SelectType").ends_with("cons_tres");
  const std::string typed = are_mixed ? type + ":" : "";
  draft.profile.sbatch.devices = (has_flag ? "--gpus-per-node=" : "--gres=gpu:") + typed + "{devices}";
  draft.note("sbatch.devices", "scontrol show config: SelectType=" + facts.setting("SelectType"));
}

/// Sets a device's share of a node, in whole cores.
void draft_shares(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue) {
  auto& sbatch = draft.profile.sbatch;
  const auto& node = queue.nodes.least;
  const auto most =
      queue.partition.max_cpus > 0 ? std::min(queue.partition.max_cpus, node.usable_cpus) : node.usable_cpus;
  const auto source =
      "scontrol show node: " + std::to_string(most) + " CPUs for jobs, " + std::to_string(node.threads) + " a core";
  const auto whole_cores = [&](std::int64_t cpus) { return cpus < node.threads ? cpus : cpus - cpus % node.threads; };
  if (queue.nodes.devices == 0) {
    sbatch.cores = whole_cores(most);
    return draft.note("sbatch.cores", source);
  }
  draft_device_flag(draft, facts, queue);
  sbatch.cores_per_device = std::max<std::int64_t>(whole_cores(most / queue.nodes.devices), 1);
  draft.note("sbatch.cores_per_device", source);
  if (!is_memory_shared_out(facts)) return;
  auto memory = node.memory_mib / queue.nodes.devices;
  const auto per_cpu = queue.partition.max_mem_cpu;
  if (per_cpu > 0) memory = std::min(memory, per_cpu * sbatch.cores_per_device);
  if (memory == 0) return;
  sbatch.memory_per_device = std::to_string(memory) + "M";
  draft.note("sbatch.memory_per_device", "scontrol show node: " + std::to_string(node.memory_mib) + " MiB for jobs");
}

void draft_node_itself(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue) {
  auto& node = draft.profile.node;
  const auto& least = queue.nodes.least;
  node.cores = least.cores;
  draft.note("node.cores", "scontrol show node: Sockets, CoresPerSocket of " + some_of(queue.nodes.names));
  node.usable_cores = std::min(least.cores, least.usable_cpus / least.threads);
  draft.note("node.usable_cores", "scontrol show node: CPUEfctv, else CPUTot without CoreSpecCount");
  node.memory_gib = least.memory_mib / 1024;
  draft.note("node.memory_gib", "scontrol show node: RealMemory without MemSpecLimit");
  const auto& view = facts.answers.node;
  if (!view) {
    draft.gap("node.numa_domains", "`lockstep profile new --live`, or `srun lscpu`");
    return;
  }
  if (!view->cpu_name.empty()) {
    node.cpu = view->cpu_name;
    draft.note("node.cpu", "/proc/cpuinfo of " + view->host);
  }
  if (view->numa_domains == 0) return;
  node.numa_domains = view->numa_domains;
  draft.note("node.numa_domains", "/sys/devices/system/node of " + view->host);
}

/// Sets the unit of billing of a partition's jobs. The unit stays empty if it is unknown.
void draft_billing(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue) {
  auto& billing = draft.profile.slurm.billing;
  const auto& weights = queue.partition.weights;
  if (!facts.setting("AccountingStorageType").ends_with("slurmdbd")) {
    return draft.gap("slurm.billing", "node, device or core: this Slurm keeps no accounts; ask the site if it bills");
  }
  const bool has_whole_nodes = draft.profile.partitions[queue.partition.name].whole_node;
  if (has_whole_nodes) {
    billing = "node";
    return draft.note("slurm.billing", "jobs have whole nodes");
  }
  billing = lower(weights).find("gres/gpu") == std::string::npos ? "core" : "device";
  // Source: slurm.conf(5), TRESBillingWeights: without weights a job is billed for its CPUs.
  draft.note("slurm.billing", weights.empty() ? "scontrol show partition: no TRESBillingWeights, so CPUs are billed"
                                              : "scontrol show partition: TRESBillingWeights=" + weights);
}

void draft_partition(ProfileDraft& draft, const PartitionFacts& partition, bool has_whole_nodes) {
  if (partition.nodes == 0 && partition.name != draft.profile.slurm.partition) return;
  auto& queue = draft.profile.partitions[partition.name];
  const auto key = [&](const char* tail) { return "partition." + partition.name + "." + tail; };
  queue.limits = {{.min_nodes = static_cast<int>(partition.min_nodes),
                   .max_nodes = static_cast<int>(partition.max_nodes),
                   .time = partition.max_time.value_or(0s)}};
  draft.note(key("limits"), "scontrol show partition: MinNodes, MaxNodes, TotalNodes, MaxTime");
  if (has_whole_nodes) {
    queue.whole_node = true;
    draft.note(key("whole_node"), partition.is_exclusive ? "scontrol show partition: OverSubscribe=EXCLUSIVE"
                                                         : "scontrol show config: SelectType=select/linear");
  }
  if (!partition.is_open) {
    queue.on_request = true;
    draft.note(key("on_request"), "scontrol show partition: " + partition.closed_by);
  }
}

void draft_qos(ProfileDraft& draft, const MachineFacts& facts) {
  for (const auto& name : facts.accounts.qos) {
    auto& queue = draft.profile.qos[name];
    const auto found = std::ranges::find(facts.qos, name, &QosLimits::name);
    const auto key = [&](const char* tail) { return "qos." + name + "." + tail; };
    queue.on_request = false;
    draft.note(key("on_request"), "sacctmgr show assoc: it is one of yours");
    if (found == facts.qos.end()) continue;
    if (found->max_devices > 0) {
      queue.max_devices = found->max_devices;
      draft.note(key("max_devices"), "sacctmgr show qos: MaxTRES");
    }
    if (!found->time && found->max_nodes == 0) continue;
    const auto all = std::max<std::int64_t>(std::ssize(facts.nodes), 1);
    queue.limits = {{.min_nodes = 1,
                     .max_nodes = static_cast<int>(found->max_nodes > 0 ? found->max_nodes : all),
                     .time = found->time.value_or(0s)}};
    draft.note(key("limits"), "sacctmgr show qos: MaxWall, MaxTRES");
  }
}

void draft_time(ProfileDraft& draft, const PartitionFacts& partition) {
  auto& time = draft.profile.slurm.time;
  if (partition.default_time) {
    time = *partition.default_time;
    return draft.note("slurm.time", "scontrol show partition: DefaultTime");
  }
  // By default a job requests an hour. If this partition's limit is lower, that is too much.
  if (!partition.max_time || *partition.max_time >= 1h) return;
  time = *partition.max_time;
  draft.note("slurm.time", "scontrol show partition: MaxTime");
}

}  // namespace

std::string slurm_name(const MachineFacts& facts) { return lower(facts.setting("ClusterName")); }

void draft_nodes(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue) {
  draft_node_itself(draft, facts, queue);
  draft_devices(draft, facts, queue);
  draft_shares(draft, facts, queue);
}

void draft_queues(ProfileDraft& draft, const MachineFacts& facts, const ChosenQueue& queue) {
  auto& slurm = draft.profile.slurm;
  slurm.nodes = static_cast<std::int64_t>(facts.nodes.size());
  draft.note("slurm.nodes", "scontrol show node");
  slurm.partition = queue.partition.name;
  draft.note("slurm.partition", queue.why);
  draft_time(draft, queue.partition);
  const bool is_linear = facts.setting("SelectType").ends_with("linear");
  for (const auto& each : facts.partitions) draft_partition(draft, each, is_linear || each.is_exclusive);
  draft_qos(draft, facts);
  draft_billing(draft, facts, queue);
  const bool has_whole_nodes = is_linear || queue.partition.is_exclusive;
  if (!has_whole_nodes || !is_memory_shared_out(facts)) return;
  draft.profile.sbatch.memory = "0";
  draft.note("sbatch.memory", "all of a node's, since jobs have whole nodes");
}

void draft_account(ProfileDraft& draft, const MachineFacts& facts) {
  auto& slurm = draft.profile.slurm;
  const auto& accounts = facts.accounts.accounts;
  const auto list = joined(accounts, ", ");
  if (accounts.empty()) {
    return draft.gap("slurm.account", "Slurm's accounting names none of yours; ask the site if jobs must name one");
  }
  slurm.account = accounts.size() == 1 ? accounts.front() : facts.accounts.default_account;
  if (!slurm.account.empty()) {
    return draft.note("slurm.account", "sacctmgr show assoc, user: yours are " + list);
  }
  slurm.account_required = true;
  slurm.account_form = "one of " + list;
  draft.note("slurm.account_required", "sacctmgr show user: no DefaultAccount");
  draft.note("slurm.account_form", "sacctmgr show assoc");
  draft.gap("slurm.account", "the one to charge, of " + list);
}

}  // namespace lockstep
