// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/plan/network.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

/// One protocol of one algorithm of NCCL. Latencies are in microseconds: one for the whole operation, and one for each
/// step over a link.
struct Protocol {
  bool is_tree = false;
  double base_us = 0;
  double fast_link_us = 0;
  double pcie_us = 0;
  double network_us = 0;
  double share = 1;  ///< Of the bus bandwidth.
};

// Source: github.com/NVIDIA/nccl, src/graph/tuning.cc (commit 01afd20): baseLat and hwLat of LL and Simple, the factors
// 1/4 and 0.9/3.8 of LL, 0.9 of trees. RCCL starts from the same tables.
constexpr Protocol kProtocols[] = {
    {.is_tree = false, .base_us = 3.6, .fast_link_us = 0.47, .pcie_us = 1.0, .network_us = 2.7, .share = 1.0 / 4.0},
    {.is_tree = false, .base_us = 8.4, .fast_link_us = 3.4, .pcie_us = 5.7, .network_us = 9.6, .share = 1.0},
    {.is_tree = true, .base_us = 4.4, .fast_link_us = 0.52, .pcie_us = 1.0, .network_us = 5.0, .share = 0.9 / 3.8},
    {.is_tree = true, .base_us = 0, .fast_link_us = 28, .pcie_us = 28, .network_us = 50, .share = 0.9},
};

double seconds_by(const Protocol& protocol, double bytes, RankLayout at, const PlanLinks& links) {
  const double link_us = links.has_fast_links ? protocol.fast_link_us : protocol.pcie_us;
  double bus = std::numeric_limits<double>::infinity();
  if (at.per_node > 1 && links.node_bus > 0) bus = links.node_bus;
  if (at.nodes > 1 && links.network_bus > 0) bus = std::min(bus, links.network_bus);
  const double ranks = at.ranks();
  if (protocol.is_tree) {
    const double latency_us =
        protocol.base_us + 2 * ((at.per_node - 1) * link_us + std::floor(std::log2(at.nodes)) * protocol.network_us);
    return latency_us * 1e-6 + bytes / (bus * protocol.share * 0.5);
  }
  const double steps = 2 * (ranks - 1);
  const double network_steps = 2.0 * (at.nodes - 1);
  const double latency_us = protocol.base_us + (steps - network_steps) * link_us + network_steps * protocol.network_us;
  return latency_us * 1e-6 + bytes / (bus * protocol.share * ranks / steps);
}

/// Interpolates between two measured sizes. Below the smallest size it returns the time of the smallest. Above the
/// largest size the time grows in proportion to the size.
double seconds_measured(double bytes, const std::vector<ReduceCost>& measured) {
  const auto above = std::ranges::find_if(measured, [&](const auto& each) { return each.bytes >= bytes; });
  if (above == measured.begin()) return above->seconds;
  if (above == measured.end()) return measured.back().seconds * bytes / measured.back().bytes;
  const auto& low = *(above - 1);
  return low.seconds + (above->seconds - low.seconds) * (bytes - low.bytes) / (above->bytes - low.bytes);
}

/// Without links.slowness.
double seconds_of(double bytes, RankLayout at, const PlanLinks& links) {
  if (at.ranks() == 1) return 0;
  if (at.nodes == 1 && at.per_node == links.measured_ranks && !links.measured.empty()) {
    return seconds_measured(bytes, links.measured);
  }
  if ((at.nodes > 1 ? links.network_bus : links.node_bus) <= 0) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (const auto& protocol : kProtocols) best = std::min(best, seconds_by(protocol, bytes, at, links));
  return best;
}

}  // namespace

double all_reduce_seconds(double bytes, RankLayout at, const PlanLinks& links) {
  return links.slowness * seconds_of(bytes, at, links);
}

}  // namespace lockstep
