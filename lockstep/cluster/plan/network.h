// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/cluster/plan/facts.h"

namespace lockstep {

/// The placement of ranks.
struct RankLayout {
  int nodes = 1;
  int per_node = 1;

  int ranks() const { return nodes * per_node; }
};

/// The speed of an all-reduce. Bandwidths are bus bandwidths in bytes a second, as in nccl-tests. 0 means unknown, and
/// an unknown link is counted as costing nothing.
struct PlanLinks {
  double slowness = 1;         ///< Factor of every all-reduce's time over the time from the other numbers.
  double node_bus = 0;         ///< Among the devices of one node.
  double network_bus = 0;      ///< Bandwidth of all adapters of a node together, in one direction.
  bool has_fast_links = true;  ///< Devices of a node reach each other by NVLink or Infinity Fabric, else by PCIe.
  std::vector<ReduceCost> measured{};  ///< Instead of all that within one node of `measured_ranks`.
  int measured_ranks = 0;
};

/// Returns the time of one all-reduce of `bytes` once all ranks have arrived.
///
/// Source: the model by which NCCL chooses its algorithm (src/graph/tuning.cc): rings and trees, each with the protocol
/// for short and for long messages, its latencies a step, the fastest of them.
double all_reduce_seconds(double bytes, RankLayout at, const PlanLinks& links);

}  // namespace lockstep
