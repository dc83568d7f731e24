// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks this task's placement, devices and cores against the launch.
void check_layout(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
