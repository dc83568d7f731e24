// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// Checks that this task's devices are sound. The driver must reach them, their memory must need no repair, their
/// clocks must not be lowered, and there must be as many as Slurm gave. A device that no program can rely on is an
/// error. A slow one is a warning.
void check_device_health(const DoctorContext& of, Findings& findings);

/// Checks that links run at their full rate: a device's PCI Express link, and in a job of several nodes the adapters of
/// the network.
void check_links(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
