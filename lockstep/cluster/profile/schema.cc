// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/profile/schema.h"

#include <algorithm>
#include <array>
#include <regex>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/recipe/schema.h"

namespace lockstep {
namespace {

using P = Profile;
using Name = const std::string&;
using Slot = ProfileSlot;

// clang-format off
constexpr auto kRows = std::to_array<ProfileRow>({
    {"base", [](P& p, Name) -> Slot { return &p.base; }, "the profile that this one starts from; generic by default"},

    {"about.description", [](P& p, Name) -> Slot { return &p.about.description; }, "one-line description of the cluster"},
    {"about.site", [](P& p, Name) -> Slot { return &p.about.site; }, "site that operates it"},
    {"about.machine", [](P& p, Name) -> Slot { return &p.about.machine; }, "hardware: manufacturer and model"},
    {"about.date", [](P& p, Name) -> Slot { return &p.about.date; }, "date when these facts were checked"},
    {"about.sources", [](P& p, Name) -> Slot { return &p.about.sources; }, "sources of these facts"},
    {"about.unverified", [](P& p, Name) -> Slot { return &p.about.unverified; }, "keys whose values are from memory or in doubt"},
    {"about.notes", [](P& p, Name) -> Slot { return &p.about.notes; }, "further notes for users"},

    {"detect.env", [](P& p, Name) -> Slot { return &p.detect.env; }, "environment variables that identify the cluster, \"NAME\" or \"NAME=value\""},
    {"detect.files", [](P& p, Name) -> Slot { return &p.detect.files; }, "files that identify the cluster, \"/path=content\""},
    {"detect.paths", [](P& p, Name) -> Slot { return &p.detect.paths; }, "paths that exist on this cluster only"},
    {"detect.hosts", [](P& p, Name) -> Slot { return &p.detect.hosts; }, "regular expressions for host names"},
    {"detect.slurm_cluster", [](P& p, Name) -> Slot { return &p.detect.slurm_cluster; }, "Slurm's ClusterName, as `scontrol show config` has it"},

    {"node.cpu", [](P& p, Name) -> Slot { return &p.node.cpu; }, "CPU model of a node"},
    {"node.cores", [](P& p, Name) -> Slot { return &p.node.cores; }, "CPU cores of a node"},
    {"node.usable_cores", [](P& p, Name) -> Slot { return &p.node.usable_cores; }, "cores that a job can use"},
    {"node.reserved_cores", [](P& p, Name) -> Slot { return &p.node.reserved_cores; }, "cores reserved for the system"},
    {"node.numa_domains", [](P& p, Name) -> Slot { return &p.node.numa_domains; }, "NUMA domains of a node"},
    {"node.memory_gib", [](P& p, Name) -> Slot { return &p.node.memory_gib; }, "memory of a node in GiB"},

    {"devices.count", [](P& p, Name) -> Slot { return &p.devices.count; }, "GPUs of a node, as Slurm counts them"},
    {"devices.name", [](P& p, Name) -> Slot { return &p.devices.name; }, "GPU model"},
    {"devices.arch", [](P& p, Name) -> Slot { return &p.devices.arch; }, "GPU architecture, such as gfx90a or sm_80"},
    {"devices.memory_gib", [](P& p, Name) -> Slot { return &p.devices.memory_gib; }, "memory of one GPU in GiB"},
    {"devices.backend", [](P& p, Name) -> Slot { return &p.devices.backend; }, "GPU runtime", "cuda rocm"},
    {"devices.visible", [](P& p, Name) -> Slot { return &p.devices.visible; }, "GPUs visible to a task: its own as index 0, or all", "one all"},
    {"devices.order", [](P& p, Name) -> Slot { return &p.devices.order; }, "GPU order in a job that has all GPUs of a node"},
    {"devices.numa", [](P& p, Name) -> Slot { return &p.devices.numa; }, "nearest NUMA domain of each GPU"},
    {"devices.cpu_masks", [](P& p, Name) -> Slot { return &p.devices.cpu_masks; }, "nearest cores of each GPU, as masks"},
    {"devices.fast_bf16", [](P& p, Name) -> Slot { return &p.devices.fast_bf16; }, "bf16 is faster than fp32"},
    {"devices.bus_gbs", [](P& p, Name) -> Slot { return &p.devices.bus_gbs; }, "bandwidth of an all-reduce among a node's GPUs, in GB/s"},
    {"devices.peak_tflops", [](P& p, Name) -> Slot { return &p.devices.peak_tflops; }, "peak TFLOP/s by precision, from the data sheet: \"bf16 312\""},
    {"devices.training_tflops", [](P& p, Name) -> Slot { return &p.devices.training_tflops; }, "TFLOP/s that published trainings reach, by precision: \"bf16 60\""},

    {"network.kind", [](P& p, Name) -> Slot { return &p.network.kind; }, "type of the high-speed network"},
    {"network.interfaces", [](P& p, Name) -> Slot { return &p.network.interfaces; }, "network interfaces, best first"},
    {"network.hcas", [](P& p, Name) -> Slot { return &p.network.hcas; }, "InfiniBand adapters"},
    {"network.host_suffix", [](P& p, Name) -> Slot { return &p.network.host_suffix; }, "suffix of a host name on the high-speed network"},
    {"network.node_gbs", [](P& p, Name) -> Slot { return &p.network.node_gbs; }, "bandwidth of all adapters of a node, one way, in GB/s"},
    {"network.expected_log", [](P& p, Name) -> Slot { return &p.network.expected_log; }, "text in NCCL's log that shows the high-speed network is used"},

    {"slurm.nodes", [](P& p, Name) -> Slot { return &p.slurm.nodes; }, "number of nodes"},
    {"slurm.account_required", [](P& p, Name) -> Slot { return &p.slurm.account_required; }, "true if a job must name an account"},
    {"slurm.account_form", [](P& p, Name) -> Slot { return &p.slurm.account_form; }, "form of an account, for people"},
    {"slurm.account_pattern", [](P& p, Name) -> Slot { return &p.slurm.account_pattern; }, "regular expression that every account matches"},
    {"slurm.account", [](P& p, Name) -> Slot { return &p.slurm.account; }, "default account"},
    {"slurm.partition", [](P& p, Name) -> Slot { return &p.slurm.partition; }, "default partition"},
    {"slurm.qos", [](P& p, Name) -> Slot { return &p.slurm.qos; }, "default QOS"},
    {"slurm.time", [](P& p, Name) -> Slot { return &p.slurm.time; }, "default time limit"},
    {"slurm.billing", [](P& p, Name) -> Slot { return &p.slurm.billing; }, "unit of billing: hours of a node, a device or a core", "node device core"},
    {"slurm.billed_per_node", [](P& p, Name) -> Slot { return &p.slurm.billed_per_node; }, "billed hours per hour of a whole node; by default 1, its devices or its cores"},

    {"partition.*.limits", [](P& p, Name n) -> Slot { return &p.partitions[n].limits; }, "\"NODES TIME\", such as \"1-91 02:00:00\""},
    {"partition.*.whole_node", [](P& p, Name n) -> Slot { return &p.partitions[n].whole_node; }, "true if jobs get whole nodes"},
    {"partition.*.max_devices", [](P& p, Name n) -> Slot { return &p.partitions[n].max_devices; }, "most GPUs of one job"},
    {"partition.*.on_request", [](P& p, Name n) -> Slot { return &p.partitions[n].on_request; }, "true if access must be requested"},
    {"partition.*.chaining", [](P& p, Name n) -> Slot { return &p.partitions[n].chaining; }, "true if a job may submit its successor"},
    {"partition.*.note", [](P& p, Name n) -> Slot { return &p.partitions[n].note; }, "note for users"},
    {"qos.*.limits", [](P& p, Name n) -> Slot { return &p.qos[n].limits; }, "\"NODES TIME\", such as \"1-8 00:30:00\""},
    {"qos.*.whole_node", [](P& p, Name n) -> Slot { return &p.qos[n].whole_node; }, "true if jobs get whole nodes"},
    {"qos.*.max_devices", [](P& p, Name n) -> Slot { return &p.qos[n].max_devices; }, "most GPUs of one job"},
    {"qos.*.on_request", [](P& p, Name n) -> Slot { return &p.qos[n].on_request; }, "true if access must be requested"},
    {"qos.*.chaining", [](P& p, Name n) -> Slot { return &p.qos[n].chaining; }, "true if a job may submit its successor"},
    {"qos.*.note", [](P& p, Name n) -> Slot { return &p.qos[n].note; }, "note for users"},

    {"sbatch.devices", [](P& p, Name) -> Slot { return &p.sbatch.devices; }, "flag that requests {devices} GPUs per node"},
    {"sbatch.cores_per_device", [](P& p, Name) -> Slot { return &p.sbatch.cores_per_device; }, "cores per GPU, as Slurm counts them"},
    {"sbatch.cores", [](P& p, Name) -> Slot { return &p.sbatch.cores; }, "cores of a whole node without GPUs, as Slurm counts them"},
    {"sbatch.memory", [](P& p, Name) -> Slot { return &p.sbatch.memory; }, "memory of a whole node, for --mem"},
    {"sbatch.memory_per_device", [](P& p, Name) -> Slot { return &p.sbatch.memory_per_device; }, "memory per GPU"},
    {"sbatch.flags", [](P& p, Name) -> Slot { return &p.sbatch.flags; }, "sbatch flags of every job"},
    {"sbatch.many_nodes", [](P& p, Name) -> Slot { return &p.sbatch.many_nodes; }, "sbatch flags of a job on several nodes"},
    {"sbatch.export", [](P& p, Name) -> Slot { return &p.sbatch.export_mode; }, "the shell's variables in a job, as for sbatch --export", "ALL NONE"},
    {"sbatch.signal_lead", [](P& p, Name) -> Slot { return &p.sbatch.signal_lead; }, "time from the warning signal to the time limit"},
    {"sbatch.requeue", [](P& p, Name) -> Slot { return &p.sbatch.requeue; }, "true if a job may be requeued"},
    {"srun.flags", [](P& p, Name) -> Slot { return &p.srun.flags; }, "srun flags of every step"},
    {"srun.devices", [](P& p, Name) -> Slot { return &p.srun.devices; }, "srun flags if each task has one GPU"},
    {"srun.whole_nodes", [](P& p, Name) -> Slot { return &p.srun.whole_nodes; }, "srun flags if a job has whole nodes; {masks}"},

    {"modules.before", [](P& p, Name) -> Slot { return &p.modules.before; }, "shell commands before `module load`"},
    {"modules.load", [](P& p, Name) -> Slot { return &p.modules.load; }, "modules to load"},
    {"modules.after", [](P& p, Name) -> Slot { return &p.modules.after; }, "shell commands after `module load`"},
    {"modules.container", [](P& p, Name) -> Slot { return &p.modules.container; }, "shell commands instead of all of these if a container is used"},
    {"modules.torch", [](P& p, Name) -> Slot { return &p.modules.torch; }, "true if the modules provide a Python interpreter with PyTorch"},
    {"env.*", [](P& p, Name n) -> Slot { return &p.env[n]; }, "environment variable of every job"},
    {"env_one_node.*", [](P& p, Name n) -> Slot { return &p.env_one_node[n]; }, "environment variable of a job on one node"},
    {"env_many_nodes.*", [](P& p, Name n) -> Slot { return &p.env_many_nodes[n]; }, "environment variable of a job on several nodes"},
    {"cache.variables", [](P& p, Name) -> Slot { return &p.cache_variables; }, "variables that name a cache folder on the node"},

    {"container.runtime", [](P& p, Name) -> Slot { return &p.container.runtime; }, "container runtime", "apptainer singularity shifter podman-hpc"},
    {"container.image", [](P& p, Name) -> Slot { return &p.container.image; }, "the site's container image, for --container site"},
    {"container.by_default", [](P& p, Name) -> Slot { return &p.container.by_default; }, "true if Python without an environment runs in that image"},
    {"container.binds", [](P& p, Name) -> Slot { return &p.container.binds; }, "folders of the node to bind into a container"},
    {"container.flags", [](P& p, Name) -> Slot { return &p.container.flags; }, "flags of the container runtime"},
    {"container.many_nodes_note", [](P& p, Name) -> Slot { return &p.container.many_nodes_note; }, "limits of a container on several nodes, and the workaround"},
    {"storage.home", [](P& p, Name) -> Slot { return &p.storage.home; }, "home folder"},
    {"storage.home_is_small", [](P& p, Name) -> Slot { return &p.storage.home_is_small; }, "true if PyTorch and Hugging Face should download to scratch instead"},
    {"storage.project", [](P& p, Name) -> Slot { return &p.storage.project; }, "project folder"},
    {"storage.scratch", [](P& p, Name) -> Slot { return &p.storage.scratch; }, "scratch: the large parallel file system"},
    {"storage.flash", [](P& p, Name) -> Slot { return &p.storage.flash; }, "flash: the fast parallel file system"},
    {"storage.node_local", [](P& p, Name) -> Slot { return &p.storage.node_local; }, "node-local folder"},
    {"storage.node_local_is_memory", [](P& p, Name) -> Slot { return &p.storage.node_local_is_memory; }, "true if that folder is in the job's memory"},
    {"storage.node_local_large", [](P& p, Name) -> Slot { return &p.storage.node_local_large; }, "node-local disk, on request"},
    {"storage.node_local_large_flag", [](P& p, Name) -> Slot { return &p.storage.node_local_large_flag; }, "flag that requests that disk"},
    {"storage.purge_days", [](P& p, Name) -> Slot { return &p.storage.purge_days; }, "days after which files on scratch are deleted"},
    {"storage.call_us", [](P& p, Name) -> Slot { return &p.storage.call_us; }, "time of one file-system call on scratch, in microseconds"},
    {"storage.stripe", [](P& p, Name) -> Slot { return &p.storage.stripe; }, "command that stripes large files"},
    {"storage.internet", [](P& p, Name) -> Slot { return &p.storage.internet; }, "true if compute nodes reach the internet"},
    {"software.torch", [](P& p, Name) -> Slot { return &p.software.torch; }, "PyTorch to use"},
    {"software.build_image", [](P& p, Name) -> Slot { return &p.software.build_image; }, "how to build container images"},
    {"software.tensorboard", [](P& p, Name) -> Slot { return &p.software.tensorboard; }, "how to reach TensorBoard"},
    {"software.tunnel", [](P& p, Name) -> Slot { return &p.software.tunnel; }, "how to reach a port of a compute node; {port} {node} {login}"},
    {"software.login", [](P& p, Name) -> Slot { return &p.software.login; }, "login host"},
    {"software.telemetry", [](P& p, Name) -> Slot { return &p.software.telemetry; }, "how the site measures jobs"},
});
// clang-format on

struct Reader {
  const ProfileRow& row;
  const RawSetting& raw;

  [[noreturn]] void refuse(const std::string& hint = "`lockstep profile ls` explains each key") const {
    throw Error(ErrorKind::kRecipe,
                raw.origin.where + ": " + raw.key + " = " + raw.value.shown + ", want " + wanted(row), hint);
  }
  template <typename T>
  const T& scalar() const {
    const auto* one = std::get_if<RawScalar>(&raw.value.data);
    const T* value = one != nullptr ? std::get_if<T>(one) : nullptr;
    if (value == nullptr) refuse();
    return *value;
  }
  template <typename T>
  std::vector<T> list() const {
    const auto* items = std::get_if<std::vector<RawScalar>>(&raw.value.data);
    if (items == nullptr) refuse();
    std::vector<T> out;
    for (const auto& item : *items) {
      const T* value = std::get_if<T>(&item);
      if (value == nullptr) refuse();
      out.push_back(*value);
    }
    return out;
  }
  std::chrono::seconds duration(const std::string& text) const {
    const auto seconds = parsed_duration(text);
    if (!seconds) refuse("for example \"02:00:00\" or \"2-00:00:00\"");
    return std::chrono::seconds(static_cast<std::int64_t>(*seconds));
  }
  void check_pattern(const std::string& pattern) const {
    try {
      std::regex{pattern};
    } catch (const std::regex_error& error) {
      refuse("'" + pattern + "' is not a regular expression: " + error.what());
    }
  }
  /// Parses a limit such as "1-91 02:00:00", "4 03:00:00", or "1-10" if the time is unknown.
  NodeLimit limit(const std::string& text) const {
    const auto space = text.find(' ');
    const auto range = split(std::string_view(text).substr(0, space), '-');
    const auto first = parsed_int<int>(range.front());
    const auto last = parsed_int<int>(range.back());
    if (!first || !last || range.size() > 2 || *first < 1 || *last < *first) {
      refuse("nodes, then time: \"1-91 02:00:00\"");
    }
    return {.min_nodes = *first,
            .max_nodes = *last,
            .time = space == std::string::npos ? std::chrono::seconds(0) : duration(text.substr(space + 1))};
  }

  void operator()(std::string* to) const {
    *to = scalar<std::string>();
    if (row.key == "slurm.account_pattern") check_pattern(*to);
    const auto allowed = words(row.names);
    if (allowed.empty() || std::ranges::find(allowed, *to) != allowed.end()) return;
    const auto near = nearest_name(*to, allowed);
    refuse(near ? "did you mean '" + *near + "'?" : "take one of them");
  }
  void operator()(std::int64_t* to) const {
    *to = scalar<std::int64_t>();
    if (*to < 0) refuse();
  }
  void operator()(bool* to) const { *to = scalar<bool>(); }
  void operator()(std::chrono::seconds* to) const { *to = duration(scalar<std::string>()); }
  void operator()(std::vector<std::string>* to) const {
    *to = list<std::string>();
    if (row.key != "detect.hosts") return;
    for (const auto& pattern : *to) check_pattern(pattern);
  }
  void operator()(std::vector<std::int64_t>* to) const { *to = list<std::int64_t>(); }
  void operator()(std::vector<NodeLimit>* to) const {
    to->clear();
    for (const auto& text : list<std::string>()) to->push_back(limit(text));
  }
};

struct Writer {
  static std::string text(const std::string& value) { return toml_quoted(value); }
  static std::string text(std::int64_t value) { return std::to_string(value); }
  static std::string text(bool value) { return value ? "true" : "false"; }
  static std::string text(std::chrono::seconds value) { return toml_quoted(hh_mm_ss(value)); }
  static std::string text(const NodeLimit& limit) {
    std::string out = std::to_string(limit.min_nodes) + "-" + std::to_string(limit.max_nodes);
    if (limit.time.count() > 0) out += " " + hh_mm_ss(limit.time);
    return toml_quoted(out);
  }
  template <typename T>
  static std::string text(const std::vector<T>& values) {
    return "[" + joined(map_each(values, [](const T& value) { return text(value); }), ", ") + "]";
  }
};

[[noreturn]] void refuse_unknown(const RawSetting& raw) {
  const auto known = map_each(kRows, [](const auto& row) { return std::string(row.key); });
  // "partition.standard-g.limit" is compared as "partition.*.limit".
  std::string shape = raw.key;
  if (const auto parts = split(raw.key, '.'); parts.size() == 3) shape = parts[0] + ".*." + parts[2];
  const auto near = nearest_name(shape, known);
  throw Error(ErrorKind::kRecipe, raw.origin.where + ": unknown key '" + raw.key + "'",
              (near ? "did you mean " + *near + "? " : std::string()) + "`lockstep profile ls` lists every key");
}

}  // namespace

std::span<const ProfileRow> profile_schema() { return kRows; }

ProfileMatch profile_row_of(std::string_view key) {
  for (const auto& row : kRows) {
    if (row.key == key && row.key.find('*') == std::string_view::npos) return {&row, {}};
    const auto star = row.key.find('*');
    if (star == std::string_view::npos) continue;
    const auto head = row.key.substr(0, star);
    const auto tail = row.key.substr(star + 1);
    if (key.size() <= head.size() + tail.size() || !key.starts_with(head) || !key.ends_with(tail)) continue;
    const auto name = key.substr(head.size(), key.size() - head.size() - tail.size());
    if (tail.empty() && name.find('.') != std::string_view::npos) continue;
    return {&row, std::string(name)};
  }
  return {};
}

void set_profile_key(Profile& profile, const RawSetting& raw) {
  const auto match = profile_row_of(raw.key);
  if (match.row == nullptr) refuse_unknown(raw);
  std::visit(Reader{*match.row, raw}, match.row->slot(profile, match.name));
  profile.origins[raw.key] = raw.origin.where;
}

std::string toml_of(const ProfileSlot& slot) {
  return std::visit([](const auto* value) { return Writer::text(*value); }, slot);
}

std::string wanted(const ProfileRow& row) {
  if (!row.names.empty()) return "one of " + joined(words(row.names), ", ");
  Profile any;
  static constexpr std::array<const char*, 7> kTypes = {"text",
                                                        "a whole number, at least 0",
                                                        "true or false",
                                                        "\"HH:MM:SS\"",
                                                        "a list of texts",
                                                        "a list of whole numbers",
                                                        "a list of \"NODES TIME\""};
  return kTypes.at(row.slot(any, "x").index());
}

}  // namespace lockstep
