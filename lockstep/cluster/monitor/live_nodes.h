// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/cluster/monitor/run_status.h"
#include "lockstep/telemetry/telemetry.h"

namespace lockstep {

/// A running job, as Slurm reports it.
struct LiveJob {
  std::string id;    ///< Slurm's job id, such as "4711", also for a task of an array.
  std::string name;  ///< "train.sh"
  std::vector<std::string> nodes;
};

/// Thrown if Slurm answers that a job does not run: it waits, it has ended, or Slurm does not know it.
class JobNotRunning : public Error {
 public:
  using Error::Error;
};

/// Returns the job with this id, such as "4711" or "4711_3".
///
/// Throws: JobNotRunning(kEnvironment) with squeue's message if Slurm does not know the job, or if it is not running;
///         Error(kEnvironment) with squeue's message if Slurm does not answer.
LiveJob live_job(const std::string& number, const Environment& env);

/// The answers of a job's nodes.
struct LiveAnswer {
  std::vector<NodeStatus> nodes{};  ///< Those that answered.
  std::string refusal{};            ///< srun's message about the other nodes. Empty if all answered.
};

/// Asks each node of a job for its present state. For that it starts `PROGRAM monitor --this-node JOB` once on each
/// node, beside the job's steps.
///
/// Blocks: until all have answered, a second or two. Throws: Error(kEnvironment) with srun's message if no node
///         answers.
LiveAnswer asked_nodes(const LiveJob& job, const std::filesystem::path& program, const Environment& env);

/// Returns this node's answer: two samples of its telemetry, `between` apart. Its devices are those of the job's tasks,
/// or all if the node has none of these tasks. `root` stands for "/" in tests.
///
/// Blocks: for that long.
std::string answer_of_this_node(const std::string& job, const Environment& env, std::chrono::milliseconds between,
                                const std::filesystem::path& root = "/");

/// Returns two samples of this machine, whether or not a job runs on it.
NodeStatus this_machine(const std::string& job, const Environment& env, std::chrono::milliseconds between);

/// Returns the processes of a job's tasks on this node: for each step and rank the process that started first. The
/// batch script counts only if no step runs. The step that `env` belongs to never counts. `root` stands for "/" in
/// tests.
std::vector<RegisteredTask> tasks_of_job(const std::string& job, const Environment& env,
                                         const std::filesystem::path& root = "/");

/// Frames samples as lines for srun. srun splits what tasks write after about a kilobyte, and mixes the parts. So each
/// line is at most `kMostFramed` long and names its sender.
inline constexpr std::size_t kMostFramed = 512;
std::string framed(const std::vector<NodeSample>& samples, const std::string& node);
/// Returns the samples that several nodes have framed, in order for each node. Incomplete and foreign lines are left
/// out.
std::vector<TelemetryLine> unframed(std::string_view text);

}  // namespace lockstep
