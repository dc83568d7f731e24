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

/// What happens where NCCL is found to talk over sockets on a fast network.
enum class SocketPolicy { kIgnore, kWarn, kStop };

/// Where the agent writes, and what it removes once the tasks have ended. Each may be empty.
struct AgentFolders {
  std::filesystem::path run_dir{};            ///< Telemetry goes here.
  std::filesystem::path node_folder{};        ///< Where tasks enter; removed. Empty: only the starting task is watched.
  std::optional<RendezvousFile> published{};  ///< Rank 0's, for the other nodes; removed.
  std::filesystem::path caches{};             ///< What tasks compile, within the node's folder.
  std::filesystem::path cache_pack{};  ///< Where that is given back to, for later jobs; empty on all nodes but one.
  /// How long `published` stays in any case: a short program of rank 0 may have ended before other nodes have started.
  std::chrono::milliseconds publish_for{std::chrono::minutes(1)};
};

/// What NCCL's logs are watched for.
struct NetworkGuard {
  SocketPolicy sockets = SocketPolicy::kWarn;
  bool spans_nodes = false;          ///< Where all ranks are on one node, sockets are no fault.
  std::filesystem::path root = "/";  ///< Where /sys is looked for.
};

struct AgentOptions {
  RegisteredTask task{};  ///< The task that starts it: local rank 0.
  int local_world = 1;    ///< Tasks to expect on this node.
  std::string node{};     ///< Its name, for file names and lines.
  CpuSet cpus{};          ///< Where the agent itself may run: not on the cores of the task alone.
  AgentFolders folders{};
  NetworkGuard network{};
  HealthLimits health{};
  std::chrono::milliseconds period{2000};  ///< Between two samples.
};

/// Starts the agent: a process of its own, in a session of its own, which is no child of the caller, so that the caller
/// can become any program. It ends within moments of the last task that it watches, and by itself alone: it ignores the
/// signals that ask a job to stop, since tasks then still have work to do.
///
/// It keeps standard error for its warnings, until the task that started it has ended, and no other descriptor.
///
/// Throws: Error(kEnvironment) where no process can be started.
void start_agent(const AgentOptions& options, const Environment& env, const Log& log);

/// The agent's whole life, in the calling process, whose standard error it closes: returns once all tasks have ended.
void run_agent(const AgentOptions& options, const Environment& env, const Log& log);

}  // namespace lockstep
