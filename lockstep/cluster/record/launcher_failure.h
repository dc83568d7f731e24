// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The rank that a launcher names as the first one that failed. The launcher's own exit code does not tell: torchrun
/// ends with 1 whatever its ranks end with.
struct LauncherFailure {
  std::string launcher{};  ///< "torchrun" or "mpirun"
  int rank = 0;
  int code = 0;  ///< As a shell has it: 128 + n for signal n.
};

/// Returns what torchrun or Open MPI's mpirun tells of a failed rank in the last lines of its standard error; nothing
/// if no such words are among them.
///
/// Source: torch/distributed/elastic/multiprocessing/errors (_FAILURE_FORMAT_TEMPLATE), and Open MPI 4's
///         orte/tools/orterun/help-orterun.txt and ompi/mpi/help-mpi-api.txt.
std::optional<LauncherFailure> launcher_failure(const std::vector<std::string>& lines);

/// Returns the last 20 of `lines`, counted before torchrun's traceback and table of failures, which otherwise push out
/// what the failed rank itself said. If nothing stands before these, they count.
std::vector<std::string> rank_lines(const std::vector<std::string>& lines);

}  // namespace lockstep
