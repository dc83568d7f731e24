// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks where compilers and libraries keep what they make.
void check_caches(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
