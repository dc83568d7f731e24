// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/placement/torchrun.h"

#include "lockstep/base/error.h"
#include "lockstep/launch/placement/slurm.h"
#include "lockstep/launch/placement/sources.h"

namespace lockstep {
namespace {

const RankVariables kNames{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};

Endpoint master_from(const Environment& env) {
  const auto address = env.get("MASTER_ADDR");
  if (!address) {
    throw Error(ErrorKind::kEnvironment, "RANK is set but MASTER_ADDR is not",
                "set MASTER_ADDR and MASTER_PORT to the address and port of rank 0, or use torchrun");
  }
  const int port = required_int(env, "MASTER_PORT", "MASTER_ADDR");
  if (port < 1 || port > 65535) {
    throw Error(ErrorKind::kEnvironment, "MASTER_PORT='" + std::to_string(port) + "' is not a port, want 1 to 65535",
                "choose a free port, for example 29500");
  }
  return {*address, port};
}

}  // namespace

bool is_torchrun_agent(const Environment& env) { return env.get("TORCHELASTIC_RUN_ID").has_value(); }

std::optional<Placement> placement_from_lockstep(const Environment& env) {
  if (!env.get("LOCKSTEP_LAUNCHER") || is_torchrun_agent(env)) return std::nullopt;
  Placement at = placement_from_variables(env, "lockstep", kNames);
  at.master = master_from(env);
  if (const auto step = placement_from_slurm(env)) {
    at.job = step->job;
    at.run = step->run;
    at.restart = step->restart;
  }
  return at;
}

std::optional<Placement> placement_from_torchrun(const Environment& env) {
  // Scripts often export one or two of these names for their own purposes. Only the full set comes from a launcher.
  const bool is_full_set = env.get("RANK") && env.get("WORLD_SIZE") && env.get("LOCAL_RANK") &&
                           env.get("LOCAL_WORLD_SIZE") && env.get("MASTER_ADDR") && env.get("MASTER_PORT");
  if (!is_full_set && !is_torchrun_agent(env)) return std::nullopt;
  Placement at = placement_from_variables(env, "torchrun", kNames);
  at.master = master_from(env);
  const std::string node_name = env.get("GROUP_RANK") ? "GROUP_RANK" : "NODE_RANK";
  at.nodes = env.get_int("GROUP_WORLD_SIZE").value_or(at.nodes);
  at.node_rank = env.get_int(node_name).value_or(at.node_rank);
  check_count("GROUP_WORLD_SIZE", at.nodes, "WORLD_SIZE", at.world);
  check_index(node_name, at.node_rank, "the number of nodes", at.nodes);
  // "none" is what torchrun calls a run that was given no --rdzv-id.
  if (const auto id = env.get("TORCHELASTIC_RUN_ID"); id && *id != "none") at.job = *id;
  at.restart = env.get_int("TORCHELASTIC_RESTART_COUNT").value_or(0);
  return at;
}

}  // namespace lockstep
