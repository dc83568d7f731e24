// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks room and files left in the run folder; nothing without a run.
void check_run_space(const DoctorContext& of, Findings& findings);

/// Checks room in the node's own temporary folder.
void check_node_space(const DoctorContext& of, Findings& findings);

/// Checks the quota by `lfs quota`, `mmlsquota` or `quota` of the run folder's file system: starts a program.
void check_quota(const DoctorContext& of, Findings& findings);

/// Checks that the job's account has hours left for all of the job's time; nothing outside a job, or where Slurm's
/// accounting sets the account no limit. Starts a program, `sshare`.
void check_budget(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
