// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// How long a node's look may take, and how long PyTorch may take to say whether it sees devices.
struct NodeLimits {
  std::chrono::milliseconds look{2000};
  std::chrono::milliseconds torch{120'000};
};

/// Starts a job's program without its work, as each task would: in its container, after its set-up lines.
struct ProgramTrial {
  std::vector<std::string> command{};  ///< Succeeds if the program starts. Empty: nothing is started.
  bool is_python = false;              ///< It is a Python without arguments, which is asked about PyTorch.
};

/// What was found on a node before a job's ranks start there.
struct NodeLook {
  std::string node{};  ///< Slurm's name, by which it may be left out; the kernel's may be another.
  std::vector<Finding> findings{};
  bool is_sick = false;     ///< One of the errors is the node's own: another node would do.
  bool has_started = true;  ///< The program started, or was not tried.
};

/// Looks at this node alone: devices, their health, links, and on the job's first node the quota of the run folder,
/// the account's budget and the program. Nothing that hangs in a driver holds it up: it works in child processes, and a
/// limit that is reached is a finding. LOCKSTEP_DOCTOR=off leaves all out but the program's start.
///
/// Blocks: until `limits` at most, but for a program that is no Python, which has all the time it takes.
/// Throws: Error(kEnvironment) if no process can be started.
NodeLook look_at_node(DoctorContext of, const ProgramTrial& trial, const NodeLimits& limits = {});

}  // namespace lockstep
