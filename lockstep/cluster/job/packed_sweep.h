// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/cluster/job/job_plan.h"

namespace lockstep {

/// A trial that shares its node with others.
struct PackedTrial {
  std::string name;                    ///< "01-lr-0.1": its folder, and its step in the job.
  std::vector<std::string> arguments;  ///< "--set", "optimizer.lr=0.1": what sets it apart.
};

/// One job of one whole node, on which several trials of a sweep run side by side.
struct PackedJob {
  JobPlan node;                 ///< What is asked for; its run folder is the job's own.
  JobPlan trial;                ///< One trial alone, without its own arguments: its size, variables, program.
  std::filesystem::path sweep;  ///< The folder that holds those of the trials.
  std::vector<PackedTrial> trials{};
  int per_device = 1;  ///< Trials that share a device.
};

/// How many trials a node takes: one for each of its devices, or for each task where it has none.
///
/// Throws: Error(kUsage) where the profile knows no devices and nobody said how many.
int trials_on_a_node(const RequestedShape& shape, const Profile& profile);

/// The batch script of such a job. Each trial is a step of its own, with one device and its share of cores and memory,
/// its own run folder and log. Trials that share a device are tasks of one step: Slurm gives a device to one step
/// alone. Each is a world of its own all the same. One that fails leaves the others alone; the job then ends with its
/// code. Where the time was up for one, the job goes on.
std::string packed_script(const PackedJob& job);

}  // namespace lockstep
