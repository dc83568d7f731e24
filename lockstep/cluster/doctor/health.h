// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks that this task's devices are sound: reached by their driver, with memory that needs no repair, not held down,
/// and as many as Slurm gave. An error is a device that no program can rely on, a warning one that is slow.
void check_device_health(const DoctorContext& of, Findings& findings);

/// Checks that links run as they should: a device's PCI Express, and the adapters of a network over several nodes.
void check_links(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
