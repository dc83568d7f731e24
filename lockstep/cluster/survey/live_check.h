// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lockstep/cluster/profile/profile.h"
#include "lockstep/cluster/survey/node_view.h"

namespace lockstep {

/// What the job was to get, on one node.
struct ExpectedTasks {
  int tasks = 1;
  int cores_per_task = 0;  ///< As Slurm counts; 0 where nothing is known.
  int devices = 0;
};

/// Where a node and its tasks are not as the profile says.
struct LiveDifference {
  std::string key;    ///< Of the profile.
  std::string found;  ///< "task 2 may run on 2 CPUs"
  std::string wanted;
};

/// The differences between a profile and what the tasks of a job report of their node. A node with more memory than the
/// profile says is none.
std::vector<LiveDifference> live_differences(const Profile& profile, const ExpectedTasks& expected,
                                             std::span<const NodeView> views);

/// The folders that the tasks are to look at: scratch and the node's own.
std::vector<std::string> folders_to_check(const Profile& profile, const Environment& env);

}  // namespace lockstep
