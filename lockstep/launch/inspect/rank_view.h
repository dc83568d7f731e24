// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <nlohmann/json_fwd.hpp>

#include "lockstep/base/environment.h"
#include "lockstep/watch/page.h"

namespace lockstep {

/// A rank to inspect from outside.
struct SeenRank {
  int rank = 0;
  pid_t pid = -1;                      ///< Process of the rank, or of the program that started it.
  const PageLayout* layout = nullptr;  ///< The rank's page, or null. It must outlive the inspection.
};

/// Inspects a rank, and if it is a launcher, the ranks that it started. Returns the keys of docs/formats/run-folder.md
/// that are known from outside: `stack python process flight_record below`, and a note for each stack that is missing.
/// py-spy is looked for in PATH of `env`.
///
/// Blocks: for some seconds at most, unless the kernel itself blocks a read of /proc.
nlohmann::json view_of(const SeenRank& rank, const Environment& env);

}  // namespace lockstep
