// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/cluster/job/job_plan.h"

namespace lockstep {

/// A trial that shares its node with others.
struct PackedTrial {
  std::string name;                    ///< The name of its folder and of its step in the job, such as "01-lr-0.1".
  std::vector<std::string> arguments;  ///< The arguments that differ from the other trials', such as "--set",
                                       ///< "optimizer.lr=0.1".
};

/// One job of one whole node, on which several trials of a sweep run side by side.
struct PackedJob {
  JobPlan node;                 ///< The requested job, whose run folder is the job's own.
  JobPlan trial;                ///< One trial alone, without its own arguments, that is its size, variables and
                                ///< program.
  std::filesystem::path sweep;  ///< The folder that holds those of the trials.
  std::vector<PackedTrial> trials{};
  int per_device = 1;  ///< Trials that share a device.
};

/// Returns the number of trials that run on a node at once: one for each device, or one for each task if the node has
/// no devices.
///
/// Throws: Error(kUsage) if neither the profile nor the request gives the number of devices.
int trials_on_a_node(const RequestedShape& shape, const Profile& profile);

/// Returns the batch script of such a job. Each trial is a step with one device, its share of cores and memory, its own
/// run folder and its own log. Trials that share a device are tasks of one step, since Slurm gives a device to only one
/// step. Each trial is still a training of its own. A trial that fails does not affect the others, but the job then
/// ends with that trial's code. If the time was up for a trial, the job is continued.
std::string packed_script(const PackedJob& job);

}  // namespace lockstep
