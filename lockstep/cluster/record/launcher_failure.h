// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The rank that a launcher names as the first to fail. The launcher's own exit code does not show it, since torchrun
/// exits with 1 whatever its ranks exit with.
struct LauncherFailure {
  std::string launcher{};  ///< "torchrun" or "mpirun"
  int rank = 0;
  int code = 0;  ///< As a shell reports it, 128 + n for signal n.
};

/// Finds a failed rank in the last lines of the standard error of torchrun or Open MPI's mpirun. Nothing if they do not
/// report one.
///
/// Source: torch/distributed/elastic/multiprocessing/errors (_FAILURE_FORMAT_TEMPLATE), and Open MPI 4's
///         orte/tools/orterun/help-orterun.txt and ompi/mpi/help-mpi-api.txt.
std::optional<LauncherFailure> launcher_failure(const std::vector<std::string>& lines);

/// Returns the last 20 of `lines` before torchrun's traceback and table of failures, which would otherwise displace the
/// failed rank's own output. If there are no lines before these, their own last lines are returned.
std::vector<std::string> rank_lines(const std::vector<std::string>& lines);

}  // namespace lockstep
