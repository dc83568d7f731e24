// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks which parts of the node the container exposes.
void check_container(const DoctorContext& of, Findings& findings);

/// True if this process is inside a container's image.
bool is_in_container(const DoctorContext& of);

}  // namespace lockstep
