// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/cluster/script/slurm_options.h"

namespace lockstep {

/// Reads a time as --time takes it: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S. Returns nothing for other text.
std::optional<std::chrono::seconds> slurm_time(std::string_view text);

/// Reads an amount of memory as --mem takes it. Units: MiB if no letter K, M, G or T follows. Returns MiB.
std::optional<std::int64_t> slurm_memory_mib(std::string_view text);

/// Devices as --gres, --gpus and the like name them.
struct SlurmDevices {
  std::string resource{};  ///< "gpu" of "gpu:a100:4".
  std::string type{};      ///< "a100"; empty if none is said.
  int count = 1;
};

/// Reads one entry of --gres: NAME[:TYPE][:COUNT]. Returns nothing for other text.
std::optional<SlurmDevices> slurm_gres(std::string_view text);

/// What a job asks for, as far as its options say so.
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
  std::optional<std::int64_t> memory_mib{};  ///< Of each node; 0 for all of it.

  /// Returns the nodes of the job: 1 if nothing says more; nothing if Slurm chooses the number.
  std::optional<int> job_nodes() const;
  /// Returns the tasks of the whole job, or nothing if that depends on Slurm.
  std::optional<int> job_tasks() const;
  /// Returns the tasks of each node if that number is the same on all nodes, else nothing.
  std::optional<int> node_tasks() const;
  /// Returns the devices of each node: 0 if none are asked for, nothing if Slurm spreads them.
  std::optional<int> node_devices() const;
};

/// Reads the numbers of a job or a step. Values that cannot be read stay open.
SlurmShape slurm_shape(const SlurmOptions& options);

}  // namespace lockstep
