// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/job/job_plan.h"

namespace lockstep {

/// A program that people reach through a port, and the flags that make it listen where a tunnel ends.
struct Server {
  std::string port;                ///< The port that its command names; empty where it names none.
  std::vector<std::string> flags;  ///< Those that its command lacks, for a shell: "--port=$port".
};

/// The server that `command` is: Jupyter or TensorBoard, as a program or as a module of Python.
std::optional<Server> server_of(const std::vector<std::string>& command);

/// What runs on a node in an interactive session: the surroundings of a batch script, then a shell, or the program as
/// `lockstep exec` sets up one task with all of a node's devices. It prints the line of the tunnel to its port.
std::string session_script(const JobPlan& plan);

/// `salloc … srun --pty … bash SCRIPT`: asks for the same as a batch script, and starts the session on the first node.
/// Steps that are started from within share its devices and cores.
std::vector<std::string> session_command(const JobPlan& plan);

/// "session.sh" in the run folder.
std::filesystem::path session_path(const JobPlan& plan);

}  // namespace lockstep
