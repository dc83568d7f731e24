// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/monitor/live_nodes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/job/queue.h"
#include "lockstep/cluster/job/submission.h"
#include "lockstep/cluster/monitor/node_history.h"
#include "lockstep/launch/placement/host_list.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/slurm_tool.h"
#include "lockstep/observe/wall_clock.h"
#include "lockstep/telemetry/device_watch.h"
#include "lockstep/telemetry/process_tree.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "lockstep-sample ";
constexpr std::chrono::seconds kPatienceForDevices{5};

double now() { return unix_seconds(std::chrono::system_clock::now()); }

/// Slurm's own steps, such as the batch script's and an interactive session's, have numbers from the end of the range.
bool is_step(const std::optional<std::string>& step) {
  const auto number = parsed_int<std::uint32_t>(step.value_or(""));
  return number && *number < 0xfffffff0;
}

/// In a test several nodes may share a machine. Each of them then has its own SLURMD_NODENAME.
bool is_elsewhere(const Environment& process, const Environment& self) {
  const auto there = process.get("SLURMD_NODENAME");
  const auto here = self.get("SLURMD_NODENAME");
  return there && here && *there != *here;
}

std::string node_name(const Environment& env) {
  const auto host = host_name();
  return env.get("SLURMD_NODENAME").value_or(host.empty() ? "this machine" : split(host, '.').front());
}

std::vector<NodeSample> samples_here(const std::string& job, const Environment& env, std::chrono::milliseconds between,
                                     const fs::path& root) {
  const auto tasks = job.empty() ? std::vector<RegisteredTask>() : tasks_of_job(job, env, root);
  const auto variables = map_each(tasks, [&](const auto& task) { return environment_of_process(task.pid, root); });
  // Other jobs may use the node's other devices.
  DeviceWatch devices(kPatienceForDevices, [variables, root] {
    return variables.empty() ? sensor_of_node() : sensor_of_tasks(variables, root);
  });
  std::vector<NodeSample> samples;
  for (int i = 0; i < 2; ++i) {
    if (i > 0) std::this_thread::sleep_for(between);
    samples.push_back({.time = now(), .memory = sample_of_memory()});
    for (const auto& task : tasks) {
      if (const auto used = sample_of_tree(task.pid)) samples.back().tasks.push_back({task, *used});
    }
    samples.back().devices = devices.sample();
  }
  return samples;
}

std::string message_of(const ProcessResult& result) {
  const auto text = trimmed(result.errors);
  return text.empty() ? "exit code " + std::to_string(result.exit_code) : std::string(text);
}

/// With these flags srun starts a step beside the job's other steps. `--overlap` allows it to run although they hold
/// all cores, devices and memory. `--mem=0` asks for no memory. Without `--gres` the step gets all of the job's
/// devices, which a cgroup would hide otherwise.
std::vector<std::string> srun_command(const LiveJob& job, const fs::path& program) {
  const auto count = std::to_string(job.nodes.size());
  return {"srun",
          "--jobid=" + job.id,
          "--overlap",
          "--nodes=" + count,
          "--ntasks=" + count,
          "--ntasks-per-node=1",
          "--cpus-per-task=1",
          "--cpu-bind=none",
          "--mem=0",
          "--mpi=none",
          "--kill-on-bad-exit=0",
          "--immediate=30",
          "--job-name=lockstep-monitor",
          "--quiet",
          program.string(),
          "monitor",
          "--this-node",
          job.id};
}

}  // namespace

LiveJob live_job(const std::string& number, const Environment& env) {
  const auto asked = run_slurm_tool({"squeue", "--noheader", "--format=%A|%T|%j|%N", "--jobs=" + number}, env);
  if (is_unknown_job(asked)) {
    throw JobNotRunning(ErrorKind::kEnvironment, "squeue does not know job " + number + ": " + message_of(asked),
                        "`squeue --me` lists your jobs; ask from a login node of the cluster");
  }
  if (asked.exit_code != 0) {
    throw Error(ErrorKind::kEnvironment, "squeue does not answer: " + message_of(asked),
                "ask from a login node of the cluster, and again in a while");
  }
  const auto fields = split(trimmed(split(trimmed(asked.output), '\n').front()), '|');
  if (fields.size() != 4) {
    throw JobNotRunning(ErrorKind::kEnvironment, "job " + number + " is not in the queue",
                        "`squeue --me` lists your jobs");
  }
  if (job_state(fields[1]) != "RUNNING") {
    throw JobNotRunning(ErrorKind::kEnvironment, "job " + number + " is " + fields[1] + ", want RUNNING",
                        "--live asks the nodes of a job, which has some while it runs");
  }
  return {.id = fields[0], .name = fields[2], .nodes = expanded_hosts(fields[3])};
}

LiveAnswer asked_nodes(const LiveJob& job, const fs::path& program, const Environment& env) {
  const auto result = run_process(srun_command(job, program), environment_for_sbatch(env));
  std::map<std::string, NodeHistory> histories;
  for (const auto& line : unframed(result.output)) histories[line.node].take(line);
  LiveAnswer answer;
  for (const auto& [node, history] : histories) answer.nodes.push_back(history.status(now()));
  if (result.exit_code != 0) answer.refusal = message_of(result);
  if (!answer.nodes.empty()) return answer;
  throw Error(
      ErrorKind::kEnvironment,
      "no node of job " + job.id + " answers: " + (result.exit_code == 0 ? "srun said nothing" : answer.refusal),
      "the job must be yours, and its nodes must see " + program.string());
}

std::string answer_of_this_node(const std::string& job, const Environment& env, std::chrono::milliseconds between,
                                const fs::path& root) {
  return framed(samples_here(job, env, between, root), node_name(env));
}

NodeStatus this_machine(const std::string& job, const Environment& env, std::chrono::milliseconds between) {
  NodeHistory history;
  for (const auto& sample : samples_here(job, env, between, "/")) {
    history.take({.event = "sample", .node = node_name(env), .time = sample.time, .sample = sample});
  }
  return history.status(now());
}

std::vector<RegisteredTask> tasks_of_job(const std::string& job, const Environment& env, const fs::path& root) {
  using Key = std::tuple<std::string, int>;  // Step and rank.
  std::map<Key, RegisteredTask> steps;
  std::map<Key, RegisteredTask> batch;
  const auto own_step = env.get("SLURM_STEP_ID");
  for (const auto& name : names_in(root / "proc")) {
    const auto pid = parsed_int<pid_t>(name);
    if (!pid) continue;
    const auto process = environment_of_process(*pid, root);
    const auto rank = parsed_int<int>(process.get("SLURM_PROCID").value_or(""));
    if (process.get("SLURM_JOB_ID") != job || !rank || is_elsewhere(process, env)) continue;
    const auto step = process.get("SLURM_STEP_ID");
    const auto started = start_of_process(*pid, root);
    if (!started || (step && step == own_step)) continue;
    const RegisteredTask task{.rank = *rank,
                              .local_rank = parsed_int<int>(process.get("SLURM_LOCALID").value_or("")).value_or(0),
                              .pid = *pid,
                              .started = *started};
    auto& first = (is_step(step) ? steps : batch).try_emplace({step.value_or(""), *rank}, task).first->second;
    // Descendants of a task inherit its variables, so the process that started first is the task itself.
    if (std::tuple(task.started, task.pid) < std::tuple(first.started, first.pid)) first = task;
  }
  return map_each(steps.empty() ? batch : steps, [](const auto& each) { return each.second; });
}

std::string framed(const std::vector<NodeSample>& samples, const std::string& node) {
  std::string text;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto json = json_of_sample(samples[i], node);
    const auto head = std::string(kMark) + node + " ";
    const auto most = kMostFramed - std::min(kMostFramed / 2, head.size() + 2);
    for (std::size_t from = 0; from < json.size(); from += most) {
      const bool is_last = from + most >= json.size();
      text += head + (is_last ? "." : "+") + json.substr(from, most) + "\n";
    }
  }
  return text;
}

std::vector<TelemetryLine> unframed(std::string_view text) {
  std::vector<TelemetryLine> lines;
  std::map<std::string, std::string> begun;  // By node.
  for (const auto& line : split(text, '\n')) {
    if (!line.starts_with(kMark)) continue;
    const auto end = line.find(' ', kMark.size());
    if (end == std::string::npos || end + 1 >= line.size()) continue;
    auto& whole = begun[line.substr(kMark.size(), end - kMark.size())];
    whole += line.substr(end + 2);
    if (line[end + 1] == '+') continue;
    if (auto parsed = parsed_telemetry(whole)) lines.push_back(std::move(*parsed));
    whole.clear();
  }
  return lines;
}

}  // namespace lockstep
