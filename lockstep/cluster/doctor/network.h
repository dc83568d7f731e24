// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks interfaces, names and the network that the collectives will use.
void check_network(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
