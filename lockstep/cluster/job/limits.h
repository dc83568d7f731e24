// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/log.h"
#include "lockstep/cluster/job/job_plan.h"
#include "lockstep/cluster/profile/profile.h"

namespace lockstep {

/// Returns the longest time of a job of this many nodes in `queue`. Nothing if the queue takes no job of that size, 0
/// if the time is unknown.
std::optional<std::chrono::seconds> time_limit(const ProfileQueue& queue, int nodes);

/// Returns an option such as "--partition small-g", with which the job shares its nodes with others and pays only for
/// its part. Empty if no queue allows that.
std::string shared_queue(const JobPlan& plan, const Profile& profile);

/// Checks a job against the profile: account, partition, QOS, nodes, time and devices.
///
/// Throws: Error(kEnvironment) with the limit, the file and line of the limit, and a job that fits. The partition is
///         never changed silently: the error names another one.
void check_limits(const JobPlan& plan, const Profile& profile);

/// Warns of requests that the scheduler will refuse, or handle in an unexpected way. `nodes_have` is for the hint to a
/// job whose tasks would get one core each.
void warn_of_request(const JobPlan& plan, const Profile& profile, const std::string& nodes_have, const Log& log);

}  // namespace lockstep
