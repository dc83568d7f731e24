// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lockstep/cluster/profile/profile.h"
#include "lockstep/cluster/survey/node_view.h"

namespace lockstep {

/// The tasks that the job should have had on one node.
struct ExpectedTasks {
  int tasks = 1;
  int cores_per_task = 0;  ///< As Slurm counts. 0 if nothing is known.
  int devices = 0;
};

/// A point in which a node and its tasks differ from the profile.
struct LiveDifference {
  std::string key;    ///< Of the profile.
  std::string found;  ///< "task 2 may run on 2 CPUs"
  std::string wanted;
};

/// Compares a profile with the reports of a job's tasks on their node, and returns the differences. More memory than in
/// the profile is not a difference.
std::vector<LiveDifference> live_differences(const Profile& profile, const ExpectedTasks& expected,
                                             std::span<const NodeView> views);

/// Returns the folders that the tasks should check: scratch and the node-local folders.
std::vector<std::string> folders_to_check(const Profile& profile, const Environment& env);

}  // namespace lockstep
