// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/placement/sources.h"

#include <algorithm>
#include <cstdint>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::string_view kHint = "start the program with the launcher itself, or unset what is left over of another";

}  // namespace

int required_int(const Environment& env, const std::string& name, const std::string& because) {
  const auto value = env.get_int(name);
  if (!value) throw Error(ErrorKind::kEnvironment, because + " is set but " + name + " is not", kHint);
  return *value;
}

void check_index(const std::string& index_name, int index, const std::string& count_name, int count) {
  if (index >= 0 && index < count) return;
  throw Error(ErrorKind::kEnvironment,
              index_name + "='" + std::to_string(index) + "' is out of range, want 0 or more and less than " +
                  count_name + "='" + std::to_string(count) + "'",
              kHint);
}

void check_count(const std::string& count_name, int count, const std::string& total_name, int total) {
  if (count >= 1 && count <= total) return;
  throw Error(ErrorKind::kEnvironment,
              count_name + "='" + std::to_string(count) + "' is out of range, want 1 to " + total_name + "='" +
                  std::to_string(total) + "'",
              kHint);
}

Placement placement_from_variables(const Environment& env, const std::string& source, const RankVariables& names) {
  Placement at;
  at.source = source;
  at.rank = required_int(env, names.rank, names.world);
  at.world = required_int(env, names.world, names.rank);
  at.local_rank = required_int(env, names.local_rank, names.rank);
  at.local_world = required_int(env, names.local_world, names.rank);
  check_index(names.rank, at.rank, names.world, at.world);
  check_index(names.local_rank, at.local_rank, names.local_world, at.local_world);
  check_count(names.local_world, at.local_world, names.world, at.world);
  derive_nodes(at);
  return at;
}

bool spread_over_nodes(Placement& at, int nodes) {
  if (nodes < 1 || nodes > at.world) return false;
  const std::int64_t base = at.world / nodes;
  const std::int64_t larger = at.world % nodes;  // The first so many nodes have one rank more.
  const std::int64_t in_larger = larger * (base + 1);
  const std::int64_t block_node = at.rank < in_larger ? at.rank / (base + 1) : larger + (at.rank - in_larger) / base;
  const std::int64_t block_first = block_node * base + std::min(block_node, larger);
  const int cyclic_node = at.rank % nodes;
  std::int64_t node = 0;
  if (at.rank - block_first == at.local_rank) {
    node = block_node;
  } else if (at.rank / nodes == at.local_rank) {
    node = cyclic_node;
  } else {
    return false;
  }
  at.nodes = nodes;
  at.node_rank = static_cast<int>(node);
  at.local_world = static_cast<int>(base + (node < larger ? 1 : 0));
  return true;
}

void derive_nodes(Placement& at) {
  at.nodes = at.world / at.local_world + (at.world % at.local_world != 0 ? 1 : 0);
  const int first_of_node = std::max(at.rank - at.local_rank, 0);
  const bool on_last = first_of_node == at.world - at.local_world;
  at.node_rank = on_last ? at.nodes - 1 : std::min(first_of_node / at.local_world, at.nodes - 1);
}

bool agree(const Placement& a, const Placement& b) {
  return a.rank == b.rank && a.world == b.world && a.local_rank == b.local_rank && a.local_world == b.local_world;
}

}  // namespace lockstep
