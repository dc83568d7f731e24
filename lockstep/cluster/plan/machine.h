// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/cluster/plan/plan.h"
#include "lockstep/cluster/profile/profile.h"

namespace lockstep {

/// The resources of a plan's job, in addition to its recipe.
struct PlanTarget {
  int ranks = 1;         ///< Of a node.
  bool is_here = false;  ///< The facts were timed on a node of that system, on the devices that the job will use.
  std::vector<MeasuredStep> measured{};
  std::string measured_in{};  ///< The runs that `measured` are from.
  LaunchWay launch = LaunchWay::kEager;
  bool is_compiled = false;  ///< model.compiled.
};

/// Returns the numbers of the system of `profile` that a plan needs.
///
/// Throws: Error(kRecipe) if the profile's rates do not have the form "PRECISION NUMBER"; Error(kEnvironment) if the
/// speed of its devices is unknown.
PlanMachine plan_machine(const Profile& profile, const TrainingFacts& facts, const PlanTarget& target);

}  // namespace lockstep
