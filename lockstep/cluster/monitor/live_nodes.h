// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/monitor/run_status.h"
#include "lockstep/telemetry/telemetry.h"

namespace lockstep {

/// A job that runs, as Slurm has it.
struct LiveJob {
  std::string id;    ///< Slurm's number, of an array's task too: "4711".
  std::string name;  ///< "train.sh"
  std::vector<std::string> nodes;
};

/// The job with this number ("4711", "4711_3").
///
/// Throws: Error(kEnvironment) with squeue's message where Slurm knows none of it, and where it does not run.
LiveJob live_job(const std::string& number, const Environment& env);

/// What a job's nodes answered.
struct LiveAnswer {
  std::vector<NodeStatus> nodes{};  ///< Those that answered.
  std::string refusal{};            ///< What srun said of the others; empty where all is well.
};

/// Asks each node of a job what it does now: starts `PROGRAM monitor --this-node JOB` once on each, beside what runs
/// there.
///
/// Blocks: until all have answered, a second or two. Throws: Error(kEnvironment) with srun's message where none does.
LiveAnswer asked_nodes(const LiveJob& job, const std::filesystem::path& program, const Environment& env);

/// What this node answers: two samples, `between` apart.
///
/// Blocks: for that long.
std::string answer_of_this_node(const std::string& job, const Environment& env, std::chrono::milliseconds between);

/// The same of this machine, job or none, for itself.
NodeStatus this_machine(const std::string& job, const Environment& env, std::chrono::milliseconds between);

/// The tasks of a job on this node: of each step and rank the process that was there first. The batch script counts
/// where no step runs, the step of `env` never. `root` stands for "/" in tests.
std::vector<RegisteredTask> tasks_of_job(const std::string& job, const Environment& env,
                                         const std::filesystem::path& root = "/");

/// Samples as the lines that go through srun, which takes what tasks write apart after a kilobyte or so and mixes it:
/// none is longer than `kMostFramed`, and each says whose it is.
inline constexpr std::size_t kMostFramed = 512;
std::string framed(const std::vector<NodeSample>& samples, const std::string& node);
/// What several nodes have framed, each node's in order; what is not whole or none of ours is left out.
std::vector<TelemetryLine> unframed(std::string_view text);

}  // namespace lockstep
