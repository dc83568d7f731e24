// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "lockstep/base/environment.h"

namespace lockstep {

using SlurmConfig = std::map<std::string, std::string, std::less<>>;

/// The settings in what `scontrol show config` prints, or in a slurm.conf: "NAME = VALUE" lines, comments left out.
/// A value of "(null)" or "N/A" is left out too. Of a line of several settings, as for nodes, only the first counts.
SlurmConfig parsed_slurm_config(std::string_view text);

/// The ClusterName of the Slurm that commands talk to from here: SLURM_CLUSTER_NAME in a job, else what slurm.conf
/// says, else what `scontrol show config` does. In lower case, as Slurm has it; empty where there is no Slurm.
///
/// Blocks:  if the controller is asked, for 10 seconds at most.
std::string slurm_cluster_name(const Environment& env, const std::filesystem::path& root = "/");

}  // namespace lockstep
