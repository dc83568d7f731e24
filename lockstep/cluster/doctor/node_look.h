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

/// The command that starts a job's program without letting it work. It starts as in each task: in its container and
/// after its set-up commands.
struct ProgramTrial {
  std::vector<std::string> command{};  ///< A command that succeeds if the program starts. If empty, nothing is started.
  bool is_python = false;  ///< The command is a Python interpreter without arguments, which is asked about PyTorch.
};

/// Findings on a node before a job's ranks start there.
struct NodeLook {
  std::string node{};  ///< Slurm's name, by which it may be left out. The kernel's may be another.
  std::vector<Finding> findings{};
  bool is_sick = false;     ///< True if one of the errors is the node's own, so that another node would do.
  bool has_started = true;  ///< The program started, or was not tried.
};

/// Checks this node alone. It checks devices, their health and links. On the job's first node it also checks the quota
/// of the run folder, the account's budget and the program. The checks run in child processes with a time limit, so a
/// hanging driver's call does not block this function, but becomes a finding. With LOCKSTEP_DOCTOR=off only the program
/// is started.
///
/// Blocks: until `limits` at most. A program other than Python has no time limit.
/// Throws: Error(kEnvironment) if no process can be started.
NodeLook look_at_node(DoctorContext of, const ProgramTrial& trial, const NodeLimits& limits = {});

}  // namespace lockstep
