// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks the process's limits: open files, locked memory, stack, processes, address space.
void check_process_limits(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
