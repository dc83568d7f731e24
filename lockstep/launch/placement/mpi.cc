// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/placement/mpi.h"

#include <algorithm>

#include "lockstep/launch/placement/sources.h"

namespace lockstep {

std::optional<Placement> placement_from_openmpi(const Environment& env) {
  if (!env.get("OMPI_COMM_WORLD_RANK") && !env.get("OMPI_COMM_WORLD_SIZE")) return std::nullopt;
  Placement at = placement_from_variables(
      env, "openmpi",
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"});
  at.job = env.get("PMIX_NAMESPACE").value_or("");
  // OMPI_COMM_WORLD_NODE_RANK is not the number of the node. It numbers the processes of all jobs on this node.
  if (const auto nodes = env.get_int("OMPI_MCA_orte_num_nodes")) {
    Placement spread = at;
    if (spread_over_nodes(spread, *nodes) && spread.local_world == at.local_world) {
      at = spread;
    } else if (*nodes > at.node_rank && *nodes <= at.world) {
      at.nodes = *nodes;
      if (at.rank - at.local_rank == at.world - at.local_world) at.node_rank = *nodes - 1;
    }
  }
  return at;
}

std::optional<Placement> placement_from_pmi(const Environment& env) {
  if (!env.get("PMI_RANK") || !env.get("PMI_SIZE")) return std::nullopt;
  RankVariables names{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};  // MPICH's Hydra, Intel MPI
  if (!env.get(names.local_rank)) {                                                   // Cray PALS
    names.local_rank = env.get("PMI_LOCAL_RANK") ? "PMI_LOCAL_RANK" : "PALS_LOCAL_RANKID";
    names.local_world = env.get("PMI_LOCAL_SIZE") ? "PMI_LOCAL_SIZE" : "PALS_LOCAL_SIZE";
  }
  if (!env.get(names.local_rank)) return std::nullopt;
  Placement at = placement_from_variables(env, "pmi", names);
  at.job = env.get("PALS_APID").value_or("");
  if (const auto node = env.get_int("PALS_NODEID")) {
    check_index("PALS_NODEID", *node, "PMI_SIZE", at.world);
    at.node_rank = *node;
    at.nodes = std::max(at.nodes, *node + 1);
  }
  return at;
}

std::optional<BarePmi> bare_pmi(const Environment& env) {
  if (!env.get("PMI_RANK") || !env.get("PMI_SIZE")) return std::nullopt;
  const BarePmi pmi{*env.get_int("PMI_RANK"), *env.get_int("PMI_SIZE")};
  check_index("PMI_RANK", pmi.rank, "PMI_SIZE", pmi.world);
  return pmi;
}

}  // namespace lockstep
