// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks the shared libraries that PyTorch and the network plugins would load.
void check_libraries(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
