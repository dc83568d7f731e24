// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// Reads the placement that Open MPI gives this process. Nothing if Open MPI did not start it. `device` stays open.
///
/// Throws: Error(kEnvironment) naming the variables if the set is incomplete or out of range.
std::optional<Placement> placement_from_openmpi(const Environment& env);

/// Reads the placement that a PMI server gives this process. Nothing if a PMI server did not start it. `device` stays
/// open.
///
/// Throws: Error(kEnvironment) naming the variables if the set is incomplete or out of range.
std::optional<Placement> placement_from_pmi(const Environment& env);

/// Reads only PMI_RANK and PMI_SIZE, which the PMI servers of Slurm and Flux set too. Beside these schedulers they do
/// not count as a source of their own.
struct BarePmi {
  int rank = 0;
  int world = 1;
};
std::optional<BarePmi> bare_pmi(const Environment& env);

}  // namespace lockstep
