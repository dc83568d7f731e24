// SPDX-License-Identifier: Apache-2.0
#pragma once

/// This process's rank and node, from the variables of Slurm, torchrun, MPI and other launchers.
///
///     const auto placement = lockstep::placement_from(lockstep::Environment::of_process());
///     std::cout << "rank " << placement.rank << " of " << placement.world << ", by " << placement.source << "\n";

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// An address and a port. The address is numeric, or as the launcher gives it.
struct Endpoint {
  std::string address;
  int port = 0;
};

/// The position of this process in a run, and its source. Ranks count from zero.
struct Placement {
  int rank = 0;                    ///< In [0, world). It decides who is first. A host's name never does.
  int world = 1;                   ///< Processes in the run.
  int local_rank = 0;              ///< In [0, local_world), the rank among this node's processes.
  int local_world = 1;             ///< Processes of the run on this node.
  int node_rank = 0;               ///< In [0, nodes).
  int nodes = 1;                   ///< Nodes in the run.
  std::optional<int> device;       ///< Index among the devices that this process sees. Nothing if it sees none.
  std::string source = "single";   ///< flags lockstep torchrun openmpi pmi slurm lsf flux single
  std::string job;                 ///< Identifies this start by job, step and restart, e.g. "4711_3.0-r1". Empty if
                                   ///< unknown.
  std::string run;                 ///< As `job`, but the same after a requeue, e.g. "4711_3.0". For the run folder.
  int restart = 0;                 ///< Number of times that the job was requeued, or torchrun restarted its ranks.
  std::optional<Endpoint> master;  ///< The address of rank 0, if the launcher gave one.
  std::vector<std::string> hosts;  ///< Host names by node_rank. Empty if unknown.

  bool is_main() const { return rank == 0; }
};

/// The flags of the command line. Each overrides the environment.
struct PlacementFlags {
  std::optional<int> rank{};
  std::optional<int> world{};
  std::optional<int> local_rank{};
  std::optional<int> local_world{};
};

/// Reads the placement from flags and the environment. It tries flags first, then Lockstep's launcher, torchrun's full
/// set, OpenMPI or PMI (an inner launcher, also under Slurm), a Slurm step, LSF and Flux. If no source is found, the
/// process is a run of one rank.
///
/// If an MPI launcher and a scheduler agree, the scheduler is the source, since it also knows nodes, hosts and job. If
/// a launcher gives only local counts, node numbers are derived from these, in order of ranks.
///
/// Throws: Error(kEnvironment) if a source is incomplete or out of range, or if two sources disagree. The message names
///         both sources. Error(kUsage) if flags are out of range.
/// Source: srun(1) "OUTPUT ENVIRONMENT VARIABLES"; docs/cluster/placement.md cites a page for each launcher.
Placement placement_from(const Environment& env, const PlacementFlags& flags = {});

/// Returns the number of devices that the environment's variables show to this process. Returns nothing if none of
/// these variables is set.
std::optional<int> shown_devices(const Environment& env);

}  // namespace lockstep
