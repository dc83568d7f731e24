// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// The position of one `accelerate launch` among a job's several.
struct AccelerateNode {
  int nodes = 1;            ///< Tasks of the job, each of which runs `accelerate launch` once.
  int node = 0;             ///< This one, in [0, nodes).
  Endpoint master{};        ///< The address of the meeting point.
  int devices = 0;          ///< Devices of this task. 0 if unknown.
  bool has_config = false;  ///< Accelerate finds a config file of the user's own.
};

/// True if Accelerate would find a config file by itself, $HF_HOME/accelerate/default_config.yaml.
bool has_accelerate_config(const Environment& env);

/// Returns `command` with the options that `accelerate launch` in it needs to start one run over all nodes. torchrun
/// takes them from its variables. So does Accelerate, except for the port. Without an option the port is 29500, and if
/// it is taken, Accelerate silently starts a separate run.
///
/// A given --num_processes counts as the number for each node, unless it equals the number of devices of all nodes. If
/// it is missing, each node starts one process for each of the task's devices. A command that has --num_machines, or
/// runs on CPUs, is unchanged. If there is a config file, the file gives the number of processes. Then only this node's
/// index and the address are added. Source: accelerate/utils/launch.py, prepare_multi_gpu_env(), 1.15.
std::vector<std::string> with_accelerate_nodes(std::vector<std::string> command, const AccelerateNode& at);

}  // namespace lockstep
