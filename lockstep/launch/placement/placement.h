// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// An address and a port, both numeric or as the launcher gave them.
struct Endpoint {
  std::string address;
  int port = 0;
};

/// Where this process stands in a run, and what told so. Ranks count from zero.
struct Placement {
  int rank = 0;                    ///< In [0, world). Decides who is first; a host's name never does.
  int world = 1;                   ///< Processes in the run.
  int local_rank = 0;              ///< In [0, local_world): the place among this node's processes.
  int local_world = 1;             ///< Processes of the run on this node.
  int node_rank = 0;               ///< In [0, nodes).
  int nodes = 1;                   ///< Nodes in the run.
  std::optional<int> device;       ///< Index among the devices that this process sees; nothing where it sees none.
  std::string source = "single";   ///< flags lockstep torchrun openmpi pmi slurm lsf flux single
  std::string job;                 ///< Names this start: job, step, restart, e.g. "4711_3.0-r1"; empty where unknown.
  std::string run;                 ///< As `job`, but the same after a requeue, e.g. "4711_3.0": for the run folder.
  int restart = 0;                 ///< How often the job was requeued, or torchrun has restarted its ranks.
  std::optional<Endpoint> master;  ///< Where rank 0 is to be met, where the launcher said so.
  std::vector<std::string> hosts;  ///< Host names by node_rank; empty where unknown.

  bool is_main() const { return rank == 0; }
};

/// What a person said on the command line; each overrides what the environment says.
struct PlacementFlags {
  std::optional<int> rank{};
  std::optional<int> world{};
  std::optional<int> local_rank{};
  std::optional<int> local_world{};
};

/// Reads the launcher's environment once: flags; our own launcher; torchrun's full set; OpenMPI or PMI (an inner
/// launcher, also under Slurm); a Slurm step; LSF; Flux; else one process. Where an MPI launcher and a scheduler say
/// the same, the scheduler is the source, since it also knows nodes, hosts and job. Node numbers of a launcher that
/// tells only local counts are derived from these, in order of ranks.
///
/// Throws: Error(kEnvironment) where a source is incomplete, out of range, or two sources disagree: both are named.
///         Error(kUsage) where flags are out of range.
/// Source: srun(1) "OUTPUT ENVIRONMENT VARIABLES"; docs/placement.md cites a page for each launcher.
Placement placement_from(const Environment& env, const PlacementFlags& flags = {});

/// How many devices the environment's variables show to this process; nothing where none of them is set.
std::optional<int> shown_devices(const Environment& env);

}  // namespace lockstep
