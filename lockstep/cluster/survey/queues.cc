// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/queues.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/survey/slurm_records.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMostNodes = 1'000'000;

void read_devices(NodeFacts& node, const SlurmRecord& record) {
  for (const auto& gres : parsed_gres(record.text("Gres"))) {
    if (gres.name != "gpu" || gres.count == 0) continue;
    // If a node has two types of devices, the number is their sum, without a type.
    node.device_type = node.devices == 0 ? gres.type : std::string();
    node.devices = std::min(node.devices + gres.count, std::int64_t{1024});
  }
  if (node.devices > 0) node.gres = record.text("Gres");
}

NodeFacts node_of(const SlurmRecord& record) {
  NodeFacts node{.name = record.text("NodeName")};
  node.cpus = record.number("CPUTot").value_or(0);
  node.cores = record.number("Sockets").value_or(1) * record.number("CoresPerSocket").value_or(node.cpus);
  node.cores = std::clamp<std::int64_t>(node.cores, 0, std::max<std::int64_t>(node.cpus, 1));
  // A site may configure Slurm so that a node's CPUs are its cores, although each core has two threads.
  node.threads = node.cores > 0 && node.cpus % node.cores == 0 ? std::max<std::int64_t>(node.cpus / node.cores, 1) : 1;
  const auto kept = record.number("CoreSpecCount").value_or(0) * node.threads;
  node.usable_cpus = record.number("CPUEfctv").value_or(std::max<std::int64_t>(node.cpus - kept, 0));
  node.memory_mib =
      std::max<std::int64_t>(record.number("RealMemory").value_or(0) - record.number("MemSpecLimit").value_or(0), 0);
  node.partitions = named_in_list(record.text("Partitions"));
  read_devices(node, record);
  return node;
}

bool have_common(const std::vector<std::string>& some, const std::vector<std::string>& others) {
  return std::ranges::any_of(some, [&](const auto& each) { return std::ranges::find(others, each) != others.end(); });
}

/// Returns why this user's jobs cannot use a partition. Empty if they can.
std::string what_closes(const SlurmRecord& record, const SurveyUser& user) {
  const auto entry = [&](const char* key) { return std::string(key) + "=" + record.text(key); };
  if (!record.text("State").empty() && !record.is("State", "UP")) return entry("State");
  if (user.name == "root") return {};
  if (record.is("RootOnly", "YES")) return entry("RootOnly");
  const auto groups = named_in_list(record.text("AllowGroups"));
  if (!groups.empty() && !have_common(groups, user.groups)) return entry("AllowGroups");
  return {};
}

/// Returns why this user's accounts cannot use a partition. Slurm checks accounts for root, too.
std::string what_closes_accounts(const SlurmRecord& record, const UserAccounts& accounts) {
  const auto allowed = named_in_list(record.text("AllowAccounts"));
  if (!allowed.empty() && !have_common(allowed, accounts.accounts)) return "AllowAccounts=" + joined(allowed, ",");
  const auto denied = named_in_list(record.text("DenyAccounts"));
  const bool are_all_denied =
      !denied.empty() && !accounts.accounts.empty() &&
      std::ranges::all_of(accounts.accounts, [&](const auto& each) { return have_common({each}, denied); });
  if (are_all_denied) return "DenyAccounts=" + joined(denied, ",");
  const auto qos = named_in_list(record.text("AllowQos"));
  if (!qos.empty() && !accounts.qos.empty() && !have_common(qos, accounts.qos)) return "AllowQos=" + joined(qos, ",");
  return {};
}

PartitionFacts partition_of(const SlurmRecord& record, const SurveyUser& user, const UserAccounts& accounts) {
  PartitionFacts partition{.name = record.text("PartitionName")};
  partition.is_default = record.is("Default", "YES");
  partition.is_up = record.is("State", "UP");
  partition.closed_by = what_closes(record, user);
  if (partition.closed_by.empty()) partition.closed_by = what_closes_accounts(record, accounts);
  partition.is_open = partition.closed_by.empty();
  partition.is_exclusive = record.is("OverSubscribe", "EXCLUSIVE") || record.is("Shared", "EXCLUSIVE");
  partition.nodes = std::min(record.number("TotalNodes").value_or(0), kMostNodes);
  const auto most = std::max<std::int64_t>(partition.nodes, 1);
  partition.max_nodes = std::clamp<std::int64_t>(record.number("MaxNodes").value_or(most), 1, most);
  partition.min_nodes = std::clamp<std::int64_t>(record.number("MinNodes").value_or(1), 1, partition.max_nodes);
  partition.max_cpus = record.number("MaxCPUsPerNode").value_or(0);
  partition.max_mem_cpu = record.number("MaxMemPerCPU").value_or(0);
  partition.max_time = parsed_slurm_time(record.text("MaxTime"));
  partition.default_time = parsed_slurm_time(record.text("DefaultTime"));
  partition.weights = record.text("TRESBillingWeights");
  return partition;
}

void join_group(NodeGroup& group, const NodeFacts& node) {
  if (group.names.empty()) {
    group.devices = node.devices;
    group.device_type = node.device_type;
    group.gres = node.gres;
    group.least = node;
  }
  group.names.push_back(node.name);
  auto& least = group.least;
  least.cpus = std::min(least.cpus, node.cpus);
  least.usable_cpus = std::min(least.usable_cpus, node.usable_cpus);
  least.cores = std::min(least.cores, node.cores);
  least.threads = std::max(least.threads, node.threads);
  least.memory_mib = std::min(least.memory_mib, node.memory_mib);
}

/// A candidate is a partition with its nodes.
struct Candidate {
  const PartitionFacts* partition = nullptr;
  std::vector<NodeGroup> groups;

  bool has_devices() const { return !groups.empty() && groups.front().devices > 0; }
  std::int64_t job_nodes() const {
    return groups.empty() ? 0 : std::min(std::ssize(groups.front().names), partition->max_nodes);
  }
  std::chrono::seconds job_time() const { return partition->max_time.value_or(std::chrono::seconds::max()); }
};

ChosenQueue made_of(const Candidate& candidate, std::string why) {
  return {.partition = *candidate.partition,
          .nodes = candidate.groups.front(),
          .others = {candidate.groups.begin() + 1, candidate.groups.end()},
          .why = std::move(why)};
}

[[noreturn]] void refuse_partition(std::span<const PartitionFacts> partitions, const std::string& wanted) {
  const auto names = map_each(partitions, [](const auto& each) { return each.name; });
  const auto near = nearest_name(wanted, names);
  throw Error(ErrorKind::kEnvironment,
              "there is no partition '" + wanted + "' with nodes, want one of " + joined(names, ", "),
              near ? "did you mean --partition " + *near + "?" : "`sinfo` lists them");
}

ChosenQueue wanted_queue(const std::vector<Candidate>& all, std::span<const PartitionFacts> partitions,
                         const std::string& wanted) {
  for (const auto& each : all) {
    if (each.partition->name == wanted) return made_of(each, "as you named it");
  }
  refuse_partition(partitions, wanted);
}

}  // namespace

std::vector<NodeFacts> parsed_nodes(std::string_view text) {
  auto nodes = map_each(parsed_slurm_records(text, "NodeName"), node_of);
  std::erase_if(nodes, [](const auto& node) { return node.name.empty(); });
  return nodes;
}

std::vector<PartitionFacts> parsed_partitions(std::string_view text, const SurveyUser& user,
                                              const UserAccounts& accounts) {
  auto partitions = map_each(parsed_slurm_records(text, "PartitionName"),
                             [&](const auto& record) { return partition_of(record, user, accounts); });
  std::erase_if(partitions, [](const auto& partition) { return partition.name.empty(); });
  return partitions;
}

std::vector<NodeGroup> node_groups(std::span<const NodeFacts> nodes, const std::string& partition) {
  std::map<std::pair<std::int64_t, std::string>, NodeGroup> by_devices;
  for (const auto& node : nodes) {
    if (std::ranges::find(node.partitions, partition) == node.partitions.end()) continue;
    join_group(by_devices[{node.devices, node.device_type}], node);
  }
  std::vector<NodeGroup> groups;
  groups.reserve(by_devices.size());
  for (auto& [key, group] : by_devices) groups.push_back(std::move(group));
  std::ranges::stable_sort(groups, [](const auto& a, const auto& b) {
    if ((a.devices > 0) != (b.devices > 0)) return a.devices > 0;
    if (a.names.size() != b.names.size()) return a.names.size() > b.names.size();
    return a.devices > b.devices;
  });
  return groups;
}

std::optional<ChosenQueue> chosen_queue(std::span<const PartitionFacts> partitions, std::span<const NodeFacts> nodes,
                                        const std::string& wanted) {
  std::vector<Candidate> all;
  for (const auto& partition : partitions) {
    Candidate candidate{.partition = &partition, .groups = node_groups(nodes, partition.name)};
    if (!candidate.groups.empty()) all.push_back(std::move(candidate));
  }
  if (!wanted.empty()) return wanted_queue(all, partitions, wanted);
  std::erase_if(all, [](const auto& each) { return !each.partition->is_open; });
  if (all.empty()) return std::nullopt;
  const auto standard = std::ranges::find_if(all, [](const auto& each) { return each.partition->is_default; });
  if (standard != all.end() && standard->has_devices()) return made_of(*standard, "the default partition");
  const auto best = std::ranges::max_element(all, [](const auto& a, const auto& b) {
    return std::tuple(a.has_devices(), a.job_nodes(), a.job_time()) <
           std::tuple(b.has_devices(), b.job_nodes(), b.job_time());
  });
  if (standard == all.end()) {
    return made_of(*best, best->has_devices() ? "its jobs may have the most nodes with devices; none is the default"
                                              : "its jobs may have the most nodes; none is the default");
  }
  if (!best->has_devices()) return made_of(*standard, "the default partition");
  return made_of(*best, "the default partition, '" + standard->partition->name + "', has no devices");
}

}  // namespace lockstep
