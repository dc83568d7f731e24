// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/survey/accounts.h"

namespace lockstep {

/// A node, as Slurm reports it.
struct NodeFacts {
  std::string name;
  std::int64_t cpus = 0;         ///< As Slurm counts them, which are hardware threads on some clusters.
  std::int64_t usable_cpus = 0;  ///< Without those that are kept for the system.
  std::int64_t cores = 0;        ///< Of all sockets.
  std::int64_t threads = 1;      ///< CPUs of a core, as Slurm counts.
  std::int64_t memory_mib = 0;   ///< For jobs.
  std::int64_t devices = 0;
  std::string device_type;  ///< "a100". Empty if the GRES has none.
  std::string gres;         ///< "gpu:a100:4(S:0-1)", for the source.
  std::vector<std::string> partitions;
};

/// Reads `scontrol show node`.
std::vector<NodeFacts> parsed_nodes(std::string_view text);

/// A partition, as Slurm reports it.
struct PartitionFacts {
  std::string name;
  bool is_default = false;
  bool is_up = false;
  bool is_open = true;           ///< To this user.
  std::string closed_by;         ///< "AllowAccounts=staff", if it is not.
  bool is_exclusive = false;     ///< Jobs have their nodes to themselves.
  std::int64_t nodes = 0;        ///< There are.
  std::int64_t min_nodes = 1;    ///< Of a job.
  std::int64_t max_nodes = 1;    ///< Of a job.
  std::int64_t max_cpus = 0;     ///< Of a node. 0 for all.
  std::int64_t max_mem_cpu = 0;  ///< MiB for each CPU. 0 for any.
  std::optional<std::chrono::seconds> max_time;
  std::optional<std::chrono::seconds> default_time;
  std::string weights;  ///< TRESBillingWeights.
};

/// Who asks.
struct SurveyUser {
  std::string name;
  std::vector<std::string> groups;
};

/// Reads the output of `scontrol show partition`, and notes which partitions this user may use.
std::vector<PartitionFacts> parsed_partitions(std::string_view text, const SurveyUser& user,
                                              const UserAccounts& accounts);

/// A group of nodes in a partition that have the same devices.
struct NodeGroup {
  std::vector<std::string> names;
  std::int64_t devices = 0;
  std::string device_type;
  std::string gres;
  NodeFacts least;  ///< The least that each of them has.
};

/// Returns the groups of equal nodes in a partition, those with devices first, then the larger ones.
std::vector<NodeGroup> node_groups(std::span<const NodeFacts> nodes, const std::string& partition);

/// The partition that jobs should use, and why.
struct ChosenQueue {
  PartitionFacts partition;
  NodeGroup nodes;
  std::vector<NodeGroup> others;  ///< Further groups of the partition.
  std::string why;
};

/// Returns the named partition, or else the default one. If the default one has no devices, it returns one with
/// devices. Nothing if no partition has nodes.
///
/// Throws: Error(kEnvironment) naming the existing partitions, if `wanted` is not one of them or has no nodes.
std::optional<ChosenQueue> chosen_queue(std::span<const PartitionFacts> partitions, std::span<const NodeFacts> nodes,
                                        const std::string& wanted);

}  // namespace lockstep
