// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/log.h"
#include "lockstep/cluster/job/job_plan.h"
#include "lockstep/cluster/profile/profile.h"

namespace lockstep {

/// The most time that a job of so many nodes gets in `queue`; nothing where it takes no job of that size, 0 where the
/// time is not known.
std::optional<std::chrono::seconds> time_limit(const ProfileQueue& queue, int nodes);

/// Returns "--partition small-g": what gives the job a part of its nodes and bills that part. Empty if nothing does.
std::string shared_queue(const JobPlan& plan, const Profile& profile);

/// Holds a job against what its profile knows of account, partition, QOS, nodes, time and devices.
///
/// Throws: Error(kEnvironment) with the limit, the file and line that it stands in, and what fits. A partition is never
/// switched: the error names one.
void check_limits(const JobPlan& plan, const Profile& profile);

/// Says what the scheduler will refuse, or do otherwise than one may think. `nodes_have` is for the hint to a job whose
/// tasks would get one core each.
void warn_of_request(const JobPlan& plan, const Profile& profile, const std::string& nodes_have, const Log& log);

}  // namespace lockstep
