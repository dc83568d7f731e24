// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/placement/placement.h"

#include <limits>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/launch/placement/device.h"
#include "lockstep/launch/placement/flux.h"
#include "lockstep/launch/placement/lsf.h"
#include "lockstep/launch/placement/mpi.h"
#include "lockstep/launch/placement/slurm.h"
#include "lockstep/launch/placement/sources.h"
#include "lockstep/launch/placement/torchrun.h"

namespace lockstep {
namespace {

std::string described(const Placement& at) {
  return at.source + " says rank " + std::to_string(at.rank) + " of " + std::to_string(at.world) + ", local rank " +
         std::to_string(at.local_rank) + " of " + std::to_string(at.local_world);
}

[[noreturn]] void fail_for_disagreement(const Placement& a, const Placement& b) {
  throw Error(ErrorKind::kEnvironment, described(a) + "; " + described(b),
              "unset the variables of the one that did not start this process: RANK, WORLD_SIZE, LOCAL_RANK and "
              "LOCAL_WORLD_SIZE if a script exports them");
}

/// If several schedulers' variables are complete, returns the one that started this process. The usual case is Flux
/// inside a Slurm step. Flux's PMI server then shows that Flux started it.
Placement innermost(const std::vector<Placement>& schedulers, const Environment& env) {
  for (const auto& other : schedulers) {
    if (agree(other, schedulers.front())) continue;
    if (const auto pmi = bare_pmi(env)) {
      for (const auto& each : schedulers) {
        if (each.rank == pmi->rank && each.world == pmi->world) return each;
      }
    }
    fail_for_disagreement(schedulers.front(), other);
  }
  return schedulers.front();
}

/// Chooses between MPI launchers and schedulers. An MPI launcher is the inner one. Under a scheduler, the scheduler's
/// variables are those of the task that runs the launcher itself, or its daemon.
Placement from_mpi_or_scheduler(const Environment& env) {
  std::vector<Placement> schedulers;
  for (const auto reader : {placement_from_slurm, placement_from_lsf, placement_from_flux}) {
    if (auto found = reader(env)) schedulers.push_back(std::move(*found));
  }
  auto mpi = placement_from_openmpi(env);
  if (!mpi) mpi = placement_from_pmi(env);
  if (mpi) {
    for (auto& scheduler : schedulers) {
      if (agree(scheduler, *mpi)) return std::move(scheduler);
    }
    return std::move(*mpi);
  }
  if (!schedulers.empty()) return innermost(schedulers, env);
  if (const auto pmi = bare_pmi(env); pmi && pmi->world > 1) {
    throw Error(ErrorKind::kEnvironment,
                "PMI_RANK and PMI_SIZE are set, but none of MPI_LOCALRANKID, PMI_LOCAL_RANK and PALS_LOCAL_RANKID",
                "set PMI_LOCAL_RANK and PMI_LOCAL_SIZE, or start with torchrun's variables");
  }
  return {};
}

/// Throws if only some of torchrun's variables are set, for example by a script, and no launcher's variables are.
void refuse_partial_set(const Environment& env) {
  const std::vector<std::string> names = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
  for (const auto& name : names) {
    const std::string alone = name.ends_with("SIZE") ? "1" : "0";
    const auto value = env.get(name);
    if (!value || *value == alone) continue;
    std::string missing;
    for (const auto& other : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
      if (!env.get(other)) missing += (missing.empty() ? "" : ", ") + std::string(other);
    }
    throw Error(ErrorKind::kEnvironment, name + "='" + *value + "' is set, but not " + missing,
                "start the program with srun, torchrun or mpirun; set all six to place it by hand; or unset " + name);
  }
}

Placement from_environment(const Environment& env) {
  if (auto own = placement_from_lockstep(env)) return std::move(*own);
  auto torchrun = placement_from_torchrun(env);
  if (torchrun && is_torchrun_agent(env)) return std::move(*torchrun);
  Placement other = from_mpi_or_scheduler(env);
  if (!torchrun) {
    if (other.source == "single") refuse_partial_set(env);
    return other;
  }
  if (other.source == "single") return std::move(*torchrun);
  if (!agree(*torchrun, other)) fail_for_disagreement(*torchrun, other);
  // If torchrun's agent did not start this process, torchrun's variables were set by `lockstep exec` or by a script.
  other.master = torchrun->master;
  return other;
}

void check_flag(const std::string& name, int value, int least, int most) {
  if (value >= least && value <= most) return;
  throw Error(ErrorKind::kUsage,
              name + " is " + std::to_string(value) + ", want " + std::to_string(least) + " to " + std::to_string(most),
              "ranks count from 0 to world - 1, local ranks from 0 to local world - 1");
}

Placement with_flags(const Environment& env, const PlacementFlags& flags) {
  // If flags give rank and world size, these place the process, and variables in the environment do not matter.
  const bool by_hand = flags.rank && flags.world;
  Placement at = by_hand ? Placement{} : from_environment(env);
  at.rank = flags.rank.value_or(at.rank);
  at.world = flags.world.value_or(at.world);
  at.local_rank = flags.local_rank.value_or(at.local_rank);
  at.local_world = flags.local_world.value_or(at.local_world);
  check_flag("world", at.world, 1, std::numeric_limits<int>::max());
  check_flag("rank", at.rank, 0, at.world - 1);
  check_flag("local world", at.local_world, 1, at.world);
  check_flag("local rank", at.local_rank, 0, at.local_world - 1);
  derive_nodes(at);
  at.hosts.clear();
  at.source = "flags";
  return at;
}

}  // namespace

Placement placement_from(const Environment& env, const PlacementFlags& flags) {
  const bool flagged = flags.rank || flags.world || flags.local_rank || flags.local_world;
  Placement at = flagged ? with_flags(env, flags) : from_environment(env);
  at.device = visible_device(env, at.local_rank, at.local_world);
  return at;
}

}  // namespace lockstep
