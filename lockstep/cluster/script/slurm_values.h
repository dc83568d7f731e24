// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/cluster/script/slurm_options.h"

namespace lockstep {

/// Parses a time of --time, as minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S. Returns nothing for other text.
std::optional<std::chrono::seconds> slurm_time(std::string_view text);

/// Parses an amount of memory of --mem and returns MiB. Units: MiB if no letter K, M, G or T follows.
std::optional<std::int64_t> slurm_memory_mib(std::string_view text);

/// Devices, as in the value of --gres, --gpus and similar options.
struct SlurmDevices {
  std::string resource{};  ///< "gpu" of "gpu:a100:4".
  std::string type{};      ///< Type such as "a100". Empty if there is none.
  int count = 1;
};

/// Parses one entry of --gres, NAME[:TYPE][:COUNT]. Returns nothing for other text.
std::optional<SlurmDevices> slurm_gres(std::string_view text);

/// The size of a job, as far as its options give it.
struct SlurmShape {
  std::optional<int> nodes{};  ///< The smallest number of a range.
  std::optional<int> max_nodes{};
  std::optional<int> tasks{};
  std::optional<int> tasks_per_node{};
  std::optional<int> cpus_per_task{};
  std::optional<int> devices_per_node{};
  std::optional<int> devices_per_task{};
  std::optional<int> devices{};  ///< Of the whole job.
  std::optional<std::chrono::seconds> time{};
  std::optional<std::int64_t> memory_mib{};  ///< Memory of each node. 0 for all of it.

  /// Returns the nodes of the job. If no option gives a number, it is 1. Returns nothing if Slurm chooses the number.
  std::optional<int> job_nodes() const;
  /// Returns the tasks of the whole job, or nothing if that depends on Slurm.
  std::optional<int> job_tasks() const;
  /// Returns the tasks of each node if that number is the same on all nodes, else nothing.
  std::optional<int> node_tasks() const;
  /// Returns the devices of each node. Returns 0 if none are requested, and nothing if Slurm chooses how to spread them
  /// over nodes.
  std::optional<int> node_devices() const;
};

/// Reads the numbers of a job or a step. Values that cannot be read stay open.
SlurmShape slurm_shape(const SlurmOptions& options);

}  // namespace lockstep
