// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/cluster/plan/facts.h"

namespace lockstep {

/// Where ranks are.
struct RankLayout {
  int nodes = 1;
  int per_node = 1;

  int ranks() const { return nodes * per_node; }
};

/// How fast an all-reduce is. Bandwidths are bus bandwidths in bytes a second, as nccl-tests has them; 0 where nothing
/// is known, which then costs nothing.
struct PlanLinks {
  double slowness = 1;         ///< What every all-reduce takes over what follows from the rest.
  double node_bus = 0;         ///< Among the devices of one node.
  double network_bus = 0;      ///< What all adapters of a node carry together, in one direction.
  bool has_fast_links = true;  ///< Devices of a node reach each other by NVLink or Infinity Fabric, else by PCIe.
  std::vector<ReduceCost> measured{};  ///< Instead of all that within one node of `measured_ranks`.
  int measured_ranks = 0;
};

/// How long one all-reduce of `bytes` takes once all ranks have come.
///
/// Source: the model by which NCCL chooses its algorithm (src/graph/tuning.cc): rings and trees, each with the protocol
/// for short and for long messages, its latencies a step, the fastest of them.
double all_reduce_seconds(double bytes, RankLayout at, const PlanLinks& links);

}  // namespace lockstep
