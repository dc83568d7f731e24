// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks room and files left where the run writes.
void check_space(const DoctorContext& of, Findings& findings);

/// Checks the quota by `lfs quota`, `mmlsquota` or `quota` of the run folder's file system: starts a program.
void check_quota(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
