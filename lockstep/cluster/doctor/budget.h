// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks that the job's account has hours left for all of the job's time; nothing outside a job, or where Slurm's
/// accounting sets the account no limit. Starts a program, `sshare`.
void check_budget(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
