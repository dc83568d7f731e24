// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/rank_setup.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "lockstep/base/cpu_set.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/nccl_settings.h"
#include "lockstep/launch/topology.h"
#include "lockstep/recipe/train_request.h"

namespace lockstep {
namespace {

int threads_of(const Recipe& recipe, const Placement& placement, const Environment& env) {
  if (const auto asked = recipe.integer("trainer.threads"); asked > 0) return static_cast<int>(asked);
  // The variable was set by the user, or by `lockstep exec` or `launch`, which know whether this rank has the job's
  // cores for itself.
  return env.get("OMP_NUM_THREADS") ? at::get_num_threads() : own_cores(placement).cores;
}

std::chrono::milliseconds milliseconds_of(const Recipe& recipe, const char* key) {
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(recipe.real(key)));
}

void check_ranks(const Recipe& recipe, const Placement& placement) {
  const auto strategy = recipe.text("trainer.strategy");
  if ((strategy == "single" || strategy == "dp") && placement.world > 1) {
    throw Error(ErrorKind::kRecipe,
                "trainer.strategy is " + strategy + ", but there are " + std::to_string(placement.world) + " ranks",
                "start one rank, or set trainer.strategy = \"ddp\"");
  }
  if (strategy != "dp" && recipe.has("trainer.devices") && recipe.integer("trainer.devices") != placement.local_world) {
    throw Error(ErrorKind::kEnvironment,
                placement.source + " started " + std::to_string(placement.local_world) +
                    " ranks on this node, trainer.devices (" + recipe.origin("trainer.devices").where + ") wants " +
                    std::to_string(recipe.integer("trainer.devices")),
                "start as many tasks on each node as trainer.devices says, or leave that out");
  }
  if (!recipe.has("cluster.nodes")) return;
  const auto most = recipe.integer("cluster.nodes");
  const auto least = recipe.has("cluster.min_nodes") ? recipe.integer("cluster.min_nodes") : most;
  if (placement.nodes < least || placement.nodes > most) {
    throw Error(ErrorKind::kEnvironment,
                placement.source + " started ranks on " + std::to_string(placement.nodes) + " nodes, cluster.nodes (" +
                    recipe.origin("cluster.nodes").where + ") wants " +
                    (least < most ? std::to_string(least) + " to " : std::string()) + std::to_string(most),
                "start on as many nodes as cluster.nodes says, or leave that out");
  }
}

}  // namespace

OwnCores own_cores(const Placement& placement) {
  const auto own = cpus_of_process();
  const bool is_bound = std::ssize(own) < ::sysconf(_SC_NPROCESSORS_ONLN);
  const int sharers = is_bound ? 1 : placement.local_world;
  return {.cores = std::max(1, Topology().cores_of(own) / sharers),
          .hardware_threads = std::max(1, static_cast<int>(std::ssize(own)) / sharers)};
}

Log rank_log(const Placement& placement) {
  if (placement.world == 1) return Log(2, "lockstep: ");
  return Log(2, "lockstep: [rank " + std::to_string(placement.rank) + "] ");
}

int with_placement(const Environment& env, const std::function<int(const Placement&)>& work) {
  const Placement placement = placement_from(env);
  try {
    return work(placement);
  } catch (const Error& error) {
    rank_log(placement).error(error.what());
    return exit_code(error.kind());
  }
}

JoinOptions join_options(const Recipe& recipe, const std::filesystem::path& run_dir) {
  return {.join_timeout = milliseconds_of(recipe, "trainer.join_timeout"),
          .collective_timeout = milliseconds_of(recipe, "trainer.collective_timeout"),
          .accelerator = accelerator_named(recipe.text("trainer.accelerator")),
          .connect_single_rank = recipe.text("trainer.strategy") == "ddp",
          .share_device = recipe.flag("trainer.share_device"),
          .run_dir = run_dir};
}

Group join_ranks(const Recipe& recipe, const Placement& placement, const Environment& env,
                 const std::filesystem::path& run_dir) {
  check_ranks(recipe, placement);
  at::set_num_threads(threads_of(recipe, placement, env));
  if (recipe.flag("trainer.deterministic")) set_where_unset(deterministic_settings());
  auto group = join(placement, env, join_options(recipe, run_dir));
  require_same_text(group, ErrorKind::kRecipe, "the recipe", settings_text(recipe),
                    "start every rank with the same recipe and the same --set");
  if (const auto& device = group.device(); !device.is_cpu()) {
    const auto runtime = device.backend->runtime();
    rank_log(placement).info(device.device.str() + ": " + device.description() + "; " + runtime.kind + " " +
                             runtime.runtime + ", driver for " + runtime.driver + ", " + runtime.collectives);
  }
  return group;
}

}  // namespace lockstep
