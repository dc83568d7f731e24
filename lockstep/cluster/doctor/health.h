// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks that this task's devices are sound. Their driver must reach them, their memory must need no repair, their
/// clocks must not be lowered, and there must be as many as Slurm gave. An error is a device that no program can rely
/// on, a warning one that is slow.
void check_device_health(const DoctorContext& of, Findings& findings);

/// Checks that links run at their full rate. These are a device's PCI Express, and over several nodes the adapters of
/// the network.
void check_links(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
