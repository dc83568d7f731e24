// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/environment.h"

namespace lockstep {

struct LocalRank {
  int rank = 0;
  int ranks = 1;
  int port = 0;     ///< The store's port on 127.0.0.1.
  int threads = 1;  ///< Cores for each rank.
};

/// Returns the variables that a launcher gives to each rank of this machine. Variables that describe an outer launcher,
/// or another rank of this one, are left out.
Environment::Map rank_variables(const Environment& env, const LocalRank& at);

/// If this machine has devices, binds the process to the cores nearest to the rank's own.
void bind_near_device(const Environment& env, int rank, int ranks);

}  // namespace lockstep
