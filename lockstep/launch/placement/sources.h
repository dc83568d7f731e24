// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// The names of the variables in which a launcher gives rank, world size, local rank and local world size.
struct RankVariables {
  std::string rank;
  std::string world;
  std::string local_rank;
  std::string local_world;
};

/// The value of a variable that must be set.
///
/// Throws: Error(kEnvironment) naming the variable `name`, and `because`, the variable that shows that `name` should be
///         set.
int required_int(const Environment& env, const std::string& name, const std::string& because);

/// Returns a placement from four variables, which must all be set. The node numbers are derived from the local counts.
Placement placement_from_variables(const Environment& env, const std::string& source, const RankVariables& names);

/// Throws: Error(kEnvironment) naming both variables if `index` is not in [0, count).
void check_index(const std::string& index_name, int index, const std::string& count_name, int count);

/// Throws: Error(kEnvironment) naming both variables if `count` is not in [1, total].
void check_count(const std::string& count_name, int count, const std::string& total_name, int total);

/// Derives node_rank and local_world from a block distribution of `world` ranks over `nodes` nodes, or else from a
/// cyclic one. The distribution must give this rank its local_rank. If neither does, it changes nothing and returns
/// false.
bool spread_over_nodes(Placement& at, int nodes);

/// Sets nodes and node_rank from rank and local counts, as if ranks filled one node after the other.
void derive_nodes(Placement& at);

/// True if two sources put this process in the same place.
bool agree(const Placement& a, const Placement& b);

}  // namespace lockstep
