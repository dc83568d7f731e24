// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/log.h"
#include "lockstep/cluster/job/job_plan.h"

namespace lockstep {

/// Says what the scheduler will refuse, or do otherwise than one may think.
void warn_of_request(const JobPlan& plan, const Profile& profile, const Log& log);

}  // namespace lockstep
