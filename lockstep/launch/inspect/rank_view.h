// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <nlohmann/json_fwd.hpp>

#include "lockstep/base/environment.h"
#include "lockstep/watch/page.h"

namespace lockstep {

/// A rank to look at from outside.
struct SeenRank {
  int rank = 0;
  pid_t pid = -1;                      ///< Of the rank, or of the program that starts it.
  const PageLayout* layout = nullptr;  ///< Its page, if it has one. Must outlive the look.
};

/// Looks at a rank, and at the ranks below it if it is a launcher. Returns the keys of docs/formats/run-folder.md that
/// are known from outside: `stack python process flight_record below`, and a note for each stack that is not there.
/// `env` is for finding py-spy.
///
/// Blocks: for some seconds at most, unless the kernel itself holds up who reads /proc.
nlohmann::json view_of(const SeenRank& rank, const Environment& env);

}  // namespace lockstep
