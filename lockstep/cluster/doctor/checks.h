// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

// The families of checks, each in a file of its name. Whoever adds a finding gives its code a heading in
// docs/doctor.md.

void check_layout(const Examination& of, Findings& findings);
void check_devices(const Examination& of, Findings& findings);
/// Whether the PyTorch that this environment would start can use the node's devices.
void check_torch(const Examination& of, Findings& findings);
void check_network(const Examination& of, Findings& findings);
void check_variables(const Examination& of, Findings& findings);
void check_caches(const Examination& of, Findings& findings);
void check_process_limits(const Examination& of, Findings& findings);
void check_space(const Examination& of, Findings& findings);
/// `lfs quota`, `mmlsquota` or `quota` of the run folder's file system: starts a program.
void check_quota(const Examination& of, Findings& findings);
void check_libraries(const Examination& of, Findings& findings);
void check_logs(const Examination& of, Findings& findings);
void check_container(const Examination& of, Findings& findings);

/// A claim: this process is inside a container's image.
bool is_in_container(const Examination& of);

}  // namespace lockstep
