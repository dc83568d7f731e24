// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/placement/slurm.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/placement/host_list.h"
#include "lockstep/launch/placement/sources.h"

namespace lockstep {
namespace {

constexpr std::string_view kHint = "start the program with srun";

/// Returns the value of the step's variable, or of the job's variable if the step's is unset.
std::string set_name(const Environment& env, const std::string& of_step, const std::string& of_job) {
  return env.get(of_step) || !env.get(of_job) ? of_step : of_job;
}

/// A batch script and a shell of salloc have SLURM_PROCID=0 too. Only a step's task has the step's id.
bool is_task_of_step(const Environment& env) {
  const auto step = env.get("SLURM_STEP_ID");
  if (!step || !env.get("SLURM_PROCID")) return false;
  // Step numbers from 0xfffffff0 on are Slurm's own steps: the batch script, extern, and salloc's interactive shell.
  if (const auto number = parsed_int<std::uint32_t>(*step); number && *number >= 0xfffffff0U) return false;
  // A job that was submitted from within a step inherits that step's variables. This is the case if the job's
  // SLURM_NTASKS differs from the step's. If they are equal, both lead to the same placement. With `srun
  // --preserve-env` they differ too, but then the step has one task, and the result is the same.
  const auto tasks_of_step = env.get("SLURM_STEP_NUM_TASKS");
  return tasks_of_step != "1" || env.get("SLURM_NTASKS").value_or("1") == "1";
}

void take_tasks_per_node(const Environment& env, const std::string& world_name, Placement& at) {
  const std::string name = set_name(env, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
  const auto text = env.get(name);
  if (!text) {
    const int nodes = required_int(env, set_name(env, "SLURM_STEP_NUM_NODES", "SLURM_NNODES"), "SLURM_PROCID");
    const int node_rank = at.node_rank;
    if (!spread_over_nodes(at, nodes) || at.node_rank != node_rank) {
      throw Error(ErrorKind::kEnvironment, "SLURM_STEP_TASKS_PER_NODE is not set, and tasks are not spread evenly",
                  kHint);
    }
    return;
  }
  const std::vector<int> counts = expanded_counts(*text);
  if (std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != at.world) {
    throw Error(
        ErrorKind::kEnvironment,
        name + "='" + *text + "' is not " + std::to_string(at.world) + " tasks in all, as " + world_name + " says",
        kHint);
  }
  at.nodes = static_cast<int>(counts.size());
  check_index("SLURM_NODEID", at.node_rank, "nodes in " + name, at.nodes);
  at.local_world = counts[static_cast<std::size_t>(at.node_rank)];
}

void take_hosts(const Environment& env, Placement& at) {
  const std::string name = set_name(env, "SLURM_STEP_NODELIST", "SLURM_NODELIST");
  const auto text = env.get(name);
  if (!text) return;
  try {
    at.hosts = expanded_hosts(*text);
  } catch (const Error& error) {
    throw Error(ErrorKind::kEnvironment, name + ": " + error.what());
  }
  if (at.hosts.size() != static_cast<std::size_t>(at.nodes)) {
    throw Error(ErrorKind::kEnvironment,
                name + "='" + *text + "' names " + std::to_string(at.hosts.size()) + " hosts, want " +
                    std::to_string(at.nodes) + " as the step has nodes",
                kHint);
  }
}

void take_job(const Environment& env, Placement& at) {
  std::string job = env.get("SLURM_JOB_ID").value_or("");
  const auto array = env.get("SLURM_ARRAY_JOB_ID");
  const auto task = env.get("SLURM_ARRAY_TASK_ID");
  if (array && task) job = *array + "_" + *task;
  at.restart = env.get_int("SLURM_RESTART_COUNT").value_or(0);
  if (job.empty()) return;
  at.run = job + "." + *env.get("SLURM_STEP_ID");
  at.job = at.run + (at.restart > 0 ? "-r" + std::to_string(at.restart) : "");
}

}  // namespace

std::optional<Placement> placement_from_slurm(const Environment& env) {
  if (!is_task_of_step(env)) return std::nullopt;
  const std::string world_name = set_name(env, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS");
  Placement at;
  at.source = "slurm";
  at.rank = required_int(env, "SLURM_PROCID", "SLURM_STEP_ID");
  at.world = required_int(env, world_name, "SLURM_PROCID");
  at.local_rank = required_int(env, "SLURM_LOCALID", "SLURM_PROCID");
  at.node_rank = required_int(env, "SLURM_NODEID", "SLURM_PROCID");
  check_index("SLURM_PROCID", at.rank, world_name, at.world);
  take_tasks_per_node(env, world_name, at);
  check_index("SLURM_LOCALID", at.local_rank, "tasks on this node", at.local_world);
  take_hosts(env, at);
  take_job(env, at);
  return at;
}

}  // namespace lockstep
