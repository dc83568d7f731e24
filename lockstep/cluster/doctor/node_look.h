// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Time limits for checking a node, and for PyTorch to report whether it sees devices.
struct NodeLimits {
  std::chrono::milliseconds look{2000};
  std::chrono::milliseconds torch{120'000};
};

/// Starts a job's program without its work, as each task would, in its container and after its set-up commands.
struct ProgramTrial {
  std::vector<std::string> command{};  ///< A command that succeeds if the program starts. If empty, nothing is started.
  bool is_python = false;              ///< It is a Python without arguments, which is asked about PyTorch.
};

/// Findings on a node before a job's ranks start there.
struct NodeLook {
  std::string node{};  ///< Slurm's name, by which it may be left out; the kernel's may be another.
  std::vector<Finding> findings{};
  bool is_sick = false;     ///< True if one of the errors is the node's own, so that another node would do.
  bool has_started = true;  ///< The program started, or was not tried.
};

/// Checks this node alone. It looks at devices, their health and links, and on the job's first node at the run folder's
/// quota, the account's budget and the program. A call that hangs in a driver does not block it, since it works in
/// child processes, and an exceeded limit is a finding. LOCKSTEP_DOCTOR=off skips all but the program's start.
///
/// Blocks: until `limits` at most, but for a program that is no Python, which has all the time it takes.
/// Throws: Error(kEnvironment) if no process can be started.
NodeLook look_at_node(DoctorContext of, const ProgramTrial& trial, const NodeLimits& limits = {});

}  // namespace lockstep
