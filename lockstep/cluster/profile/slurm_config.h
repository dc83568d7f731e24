// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "lockstep/base/environment.h"

namespace lockstep {

using SlurmConfig = std::map<std::string, std::string, std::less<>>;

/// Parses the output of `scontrol show config`, or a slurm.conf. Both have "NAME = VALUE" lines. Comments, and values
/// of "(null)" or "N/A", are left out. If a line has several settings, as for nodes, only the first counts.
SlurmConfig parsed_slurm_config(std::string_view text);

/// Returns the ClusterName of the Slurm that commands reach from here, without asking its controller. It is
/// SLURM_CLUSTER_NAME in a job, else from slurm.conf. The name is in lower case, as in Slurm. Empty if neither has it.
std::string known_slurm_cluster_name(const Environment& env, const std::filesystem::path& root = "/");

/// Returns the ClusterName of the Slurm that commands reach from here. It is known_slurm_cluster_name(), else
/// from `scontrol show config`. Empty if there is no Slurm.
///
/// Blocks:  if the controller is asked, for 10 seconds at most.
std::string slurm_cluster_name(const Environment& env, const std::filesystem::path& root = "/");

}  // namespace lockstep
