// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/agent/node_health.h"
#include "lockstep/base/cpu_set.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"
#include "lockstep/launch/rendezvous_file.h"
#include "lockstep/telemetry/task_register.h"

namespace lockstep {

/// The reaction if NCCL uses sockets although there is a fast network.
enum class SocketPolicy { kIgnore, kWarn, kStop };

/// The folders that the agent writes to, and those that it removes once the tasks have ended. Each may be empty.
struct AgentFolders {
  std::filesystem::path run_dir{};            ///< Telemetry goes here.
  std::filesystem::path node_folder{};        ///< The folder in which tasks register, removed at the end. If empty,
                                              ///< only the starting task is watched.
  std::optional<RendezvousFile> published{};  ///< Rank 0's rendezvous file for the other nodes, removed at the end.
  std::filesystem::path caches{};             ///< The cache of compiled code, within the node's folder.
  std::filesystem::path cache_pack{};  ///< The pack that this cache is given back to, for later jobs. Empty on all
                                       ///< nodes but one.
  /// The minimum time for which the file `published` is kept. Rank 0's program may end before other nodes have started.
  std::chrono::milliseconds publish_for{std::chrono::minutes(1)};
};

/// How the agent watches NCCL's logs.
struct NetworkGuard {
  SocketPolicy sockets = SocketPolicy::kWarn;
  bool spans_nodes = false;          ///< If all ranks are on one node, sockets are no fault.
  std::filesystem::path root = "/";  ///< The folder that stands for "/", to find /sys in. Also for devices.
};

struct AgentOptions {
  RegisteredTask task{};  ///< The task that starts the agent, local rank 0.
  int local_world = 1;    ///< Tasks to expect on this node.
  std::string node{};     ///< Its name, for file names and lines.
  CpuSet cpus{};          ///< The CPUs that the agent may run on. They are not only those of the task.
  AgentFolders folders{};
  NetworkGuard network{};
  HealthLimits health{};
  std::chrono::milliseconds period{2000};  ///< Between two samples.
};

/// Starts the agent in a process and a session of its own. It is not a child of the caller, which can then become any
/// program. It ends shortly after the last task that it watches. It ignores the signals that ask a job to stop, since
/// tasks then still have work to do.
///
/// The agent keeps one descriptor: standard error, for its warnings, until the task that started the agent has ended.
///
/// Throws: Error(kEnvironment) if no process can be started.
void start_agent(const AgentOptions& options, const Environment& env, const Log& log);

/// Runs the agent in the calling process, whose standard error it closes. Returns once all tasks have ended.
void run_agent(const AgentOptions& options, const Environment& env, const Log& log);

}  // namespace lockstep
