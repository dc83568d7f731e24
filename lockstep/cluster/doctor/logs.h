// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Reads the run's logs of NCCL or RCCL for slow paths.
void check_logs(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
