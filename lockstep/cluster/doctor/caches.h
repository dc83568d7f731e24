// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks the cache folders of compilers and libraries.
void check_caches(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
