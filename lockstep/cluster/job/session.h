// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/job/job_plan.h"

namespace lockstep {

/// A program that people use through a port, such as Jupyter, and the flags that make it listen at that port.
struct Server {
  std::string port;                ///< The port in its command. Empty if there is none.
  std::vector<std::string> flags;  ///< The flags that its command lacks, for a shell, such as "--port=$port".
};

/// Returns the server that `command` is, Jupyter or TensorBoard, as a program or as a Python module.
std::optional<Server> server_of(const std::vector<std::string>& command);

/// Returns the script of an interactive session on a node. It sets up the same surroundings as a batch script. Then it
/// starts a shell, or the program. `lockstep exec` sets it up as one task that has all devices of the node. It prints
/// the command of the tunnel to its port.
std::string session_script(const JobPlan& plan);

/// Returns `salloc … srun --pty … bash SCRIPT`. It requests the same as a batch script, and starts the session on the
/// first node. Steps that are started inside the session share the session's devices and cores.
std::vector<std::string> session_command(const JobPlan& plan);

/// Returns the path of "session.sh" in the run folder.
std::filesystem::path session_path(const JobPlan& plan);

}  // namespace lockstep
