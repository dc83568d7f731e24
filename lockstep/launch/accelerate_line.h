// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// Where one of a job's several `accelerate launch` stands.
struct AccelerateNode {
  int nodes = 1;            ///< Tasks of the job: each runs `accelerate launch` once.
  int node = 0;             ///< This one, in [0, nodes).
  Endpoint master{};        ///< Where they meet.
  int devices = 0;          ///< Of this task; 0 where that is not known.
  bool has_config = false;  ///< Accelerate finds a config file of the user's own.
};

/// True if Accelerate would find a config file without being told of one: $HF_HOME/accelerate/default_config.yaml.
bool has_accelerate_config(const Environment& env);

/// Returns `command` with what `accelerate launch` in it must be told to start one run over all nodes. Torchrun takes
/// this from its variables. Accelerate does so too, except for the port: without an option it is 29500, and if anything
/// holds that port, it quietly starts a run of its own.
///
/// --num_processes is what each node starts, unless it is the number of all nodes' devices; left out, it is the task's
/// devices. A command that has --num_machines, or runs on CPUs, stays as it is. Where there is a config file it says
/// how many, and only who this node is and where to meet is added. Source: accelerate/utils/launch.py,
/// prepare_multi_gpu_env(), 1.15.
std::vector<std::string> with_accelerate_nodes(std::vector<std::string> command, const AccelerateNode& at);

}  // namespace lockstep
