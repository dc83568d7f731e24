// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// The variables in which a launcher gives the four numbers.
struct RankVariables {
  std::string rank;
  std::string world;
  std::string local_rank;
  std::string local_world;
};

/// The value of a variable that must be set.
///
/// Throws: Error(kEnvironment) naming `name`, and `because`, the variable that promised it.
int required_int(const Environment& env, const std::string& name, const std::string& because);

/// A placement from four variables, all of which must be set, with nodes derived from the local counts.
Placement placement_from_variables(const Environment& env, const std::string& source, const RankVariables& names);

/// Throws: Error(kEnvironment) naming both variables if `index` is not in [0, count).
void check_index(const std::string& index_name, int index, const std::string& count_name, int count);

/// Throws: Error(kEnvironment) naming both variables if `count` is not in [1, total].
void check_count(const std::string& count_name, int count, const std::string& total_name, int total);

/// Sets node_rank and local_world as a block or else a cyclic distribution of `world` ranks over `nodes` nodes has
/// them. Returns false, and changes nothing, if neither gives this rank its local_rank.
bool spread_over_nodes(Placement& at, int nodes);

/// Sets nodes and node_rank from rank and local counts, as if ranks were dealt out node by node.
void derive_nodes(Placement& at);

/// True if two sources put this process in the same place.
bool agree(const Placement& a, const Placement& b);

}  // namespace lockstep
