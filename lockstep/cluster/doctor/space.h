// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks the free space and the free inodes of the run folder. Does nothing without a run.
void check_run_space(const DoctorContext& of, Findings& findings);

/// Checks room in the node's own temporary folder.
void check_node_space(const DoctorContext& of, Findings& findings);

/// Checks the quota of the run folder's file system. It starts `lfs quota`, `mmlsquota` or `quota`.
void check_quota(const DoctorContext& of, Findings& findings);

/// Checks that the job's account has hours left for all of the job's time; nothing outside a job, or where Slurm's
/// accounting sets the account no limit. Starts a program, `sshare`.
void check_budget(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
