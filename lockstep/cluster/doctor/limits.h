// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks the process's limits on open files, locked memory, stack, processes and address space.
void check_process_limits(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
