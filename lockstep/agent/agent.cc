// SPDX-License-Identifier: Apache-2.0
#include "lockstep/agent/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <optional>
#include <vector>

#include "lockstep/agent/cache_pack.h"
#include "lockstep/agent/left_overs.h"
#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/task_environment.h"
#include "lockstep/observe/wall_clock.h"
#include "lockstep/telemetry/device_watch.h"
#include "lockstep/telemetry/network_watch.h"
#include "lockstep/telemetry/process_tree.h"
#include "lockstep/telemetry/telemetry.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPatienceForTasks{10};  // For those that have not entered when the others have all ended.
constexpr seconds kGrace{5};              // From SIGTERM to SIGKILL.
constexpr seconds kQuiet{60};             // Caches that were not written for so long are whole.
constexpr int kSamplesBetweenCacheLooks = 15;
constexpr seconds kPatienceForDevices{1};  // A driver answers within milliseconds.
constexpr milliseconds kLook{100};         // How often an end is looked for that no descriptor tells.

double now() { return unix_seconds(std::chrono::system_clock::now()); }

class Agent {
 public:
  Agent(const AgentOptions& options, const Environment& env, const Log& log)
      : options_(options), log_(log), health_(options.health), next_sample_(Clock::now() + options.period) {
    tasks_.emplace_back(options.task);
    variables_.push_back(env);
    if (!options.folders.run_dir.empty()) {
      telemetry_.emplace(options.folders.run_dir / ("telemetry-" + options.node + ".jsonl"), options.node);
      telemetry_->write_start(now(), std::chrono::duration<double>(options.period).count(), options.local_world);
    }
    if (!options.folders.cache_pack.empty()) {
      caches_.emplace(options.folders.cache_pack, options.folders.caches);
      given_back_ns_ = caches_->warmed_ns();
    }
    const bool is_watched = options.network.sockets != SocketPolicy::kIgnore && options.network.spans_nodes;
    const auto fast = is_watched ? fast_network(env, options.network.root) : std::nullopt;
    if (fast) network_.emplace(*fast);
  }

  void run() {
    if (!options_.folders.node_folder.empty()) remove_left_overs(options_.folders.node_folder);
    while (!is_over()) {
      wait();
      if (tasks_.front().has_ended()) release_standard_error();
      take_entries();
      if (Clock::now() < next_sample_) continue;
      next_sample_ = Clock::now() + options_.period;
      sample();
      watch_network();
      if (++looks_ % kSamplesBetweenCacheLooks == 0) give_back_caches(/*is_end=*/false);
      if (kill_at_ && Clock::now() >= *kill_at_) signal_tasks(SIGKILL);
    }
    watch_network();
    give_back_caches(/*is_end=*/true);
    if (telemetry_) telemetry_->write_end(now());
    clean_up();
  }

 private:
  bool is_complete() const { return options_.folders.node_folder.empty() || tasks_.size() >= expected(); }
  std::size_t expected() const { return static_cast<std::size_t>(options_.local_world); }

  bool is_over() {
    for (auto& task : tasks_) {
      if (!task.has_ended()) {
        last_end_.reset();
        return false;
      }
    }
    if (is_complete()) return true;
    if (!last_end_) last_end_ = Clock::now();
    return Clock::now() - *last_end_ > kPatienceForTasks;
  }

  void wait() {
    std::vector<pollfd> polled;
    bool is_told = is_complete();
    for (auto& task : tasks_) {
      if (task.has_ended()) continue;
      if (task.descriptor() < 0) is_told = false;
      polled.push_back({task.descriptor(), POLLIN, 0});
    }
    auto left = std::chrono::ceil<milliseconds>(next_sample_ - Clock::now());
    if (!is_told) left = std::min(left, kLook);
    ::poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  }

  /// The agent closes standard error when the task that started it has ended. Otherwise a reader of this task's output
  /// would wait until the node's other tasks have ended too.
  void release_standard_error() {
    if (!holds_standard_error_) return;
    holds_standard_error_ = false;
    const FileDescriptor null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (null) ::dup2(null.get(), STDERR_FILENO);
  }

  void take_entries() {
    if (is_complete()) return;
    for (int local_rank = 0; local_rank < options_.local_world; ++local_rank) {
      const auto same = [&](const WatchedTask& each) { return each.task().local_rank == local_rank; };
      if (std::any_of(tasks_.begin(), tasks_.end(), same)) continue;
      const auto task = entered_task(local_rank, options_.folders.node_folder);
      if (!task) continue;
      tasks_.emplace_back(*task);
      variables_.push_back(environment_of_process(task->pid));
      devices_.reset();  // This task may have other devices.
    }
  }

  void sample() {
    if (!telemetry_) return;
    NodeSample sample{.time = now(), .memory = sample_of_memory()};
    for (auto& task : tasks_) {
      if (task.has_ended()) continue;
      if (const auto used = sample_of_tree(task.task().pid)) sample.tasks.push_back({task.task(), *used});
    }
    if (!devices_) {
      devices_.emplace(kPatienceForDevices,
                       [tasks = variables_, root = options_.network.root] { return sensor_of_tasks(tasks, root); });
    }
    sample.devices = devices_->sample();
    sample.devices_silent_s = devices_->silent_s();
    telemetry_->write_sample(sample);
    for (const auto& finding : health_.look(sample)) {
      if (finding.text.empty()) {
        telemetry_->write_warning_over(sample.time, finding.code);
        continue;
      }
      log_.warning(options_.node + ": " + finding.text);
      telemetry_->write_warning(sample.time, finding.code, finding.text);
    }
  }

  void watch_network() {
    if (!network_) return;
    for (const auto& task : tasks_)
      network_->follow(nccl_log(options_.folders.run_dir, options_.folders.node_folder, task.task().rank));
    const auto warning = network_->look();
    if (!warning) return;
    const bool is_stop = options_.network.sockets == SocketPolicy::kStop;
    const std::string text = options_.node + ": " + *warning;
    if (is_stop) {
      log_.error(text + "\n  this node's tasks are stopped, as --on-sockets or LOCKSTEP_ON_SOCKETS asks");
      signal_tasks(SIGTERM);
      kill_at_ = Clock::now() + kGrace;
    } else {
      log_.warning(text);
    }
    if (telemetry_) telemetry_->write_warning(now(), "sockets", *warning);
  }

  /// Writes new files of the caches into the pack. This is done during the run too, since a batch system that ends a
  /// step may end this process too.
  void give_back_caches(bool is_end) {
    if (!caches_) return;
    const auto files = caches_->files();
    const auto newest = std::ranges::max_element(files, {}, [](const auto& each) { return each.second.changed_ns; });
    if (newest == files.end() || newest->second.changed_ns <= given_back_ns_) return;
    const double quiet_s = now() - static_cast<double>(newest->second.changed_ns) * 1e-9;
    if (!is_end && quiet_s < std::chrono::duration<double>(kQuiet).count()) return;
    try {
      if (caches_->give_back(files)) given_back_ns_ = newest->second.changed_ns;
    } catch (const Error& error) {
      log_.warning(std::string("later jobs will not find what this one compiled: ") + error.what());
      caches_.reset();
    }
  }

  void signal_tasks(int signal) {
    for (auto& task : tasks_) {
      if (!task.has_ended()) ::kill(task.task().pid, signal);
    }
  }

  /// True if the same step has started a program again. Its tasks have then registered in place of the ones that this
  /// agent watches.
  bool is_taken_over() const {
    return std::any_of(tasks_.begin(), tasks_.end(), [&](const WatchedTask& each) {
      const auto now_there = entered_task(each.task().local_rank, options_.folders.node_folder);
      return now_there && now_there->pid != each.task().pid;
    });
  }

  void clean_up() {
    std::error_code none;
    const auto& folders = options_.folders;
    if (folders.published && Clock::now() - started_ >= folders.publish_for) folders.published->remove();
    if (!folders.node_folder.empty() && !is_taken_over()) fs::remove_all(folders.node_folder, none);
  }

  const AgentOptions& options_;
  const Log& log_;
  std::vector<WatchedTask> tasks_;
  std::optional<TelemetryFile> telemetry_;
  std::vector<Environment> variables_;  // Of each of tasks_.
  std::optional<DeviceWatch> devices_;  // Made by the first sample with these variables.
  std::optional<NetworkWatch> network_;
  NodeHealth health_;
  std::optional<CachePack> caches_;
  std::int64_t given_back_ns_ = 0;  // Files written until then are in the pack.
  int looks_ = 0;
  bool holds_standard_error_ = true;
  Clock::time_point started_ = Clock::now();
  Clock::time_point next_sample_;
  std::optional<Clock::time_point> last_end_;  // When the last task that entered was found to have ended.
  std::optional<Clock::time_point> kill_at_;
};

/// Detaches from the caller's terminal and session, descriptors, signals and cores.
void detach(const AgentOptions& options) {
  ::setsid();
  ::prctl(PR_SET_NAME, "lockstep-agent");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) ::signal(signal, SIG_IGN);
  const FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null) {
    ::dup2(null.get(), STDIN_FILENO);
    ::dup2(null.get(), STDOUT_FILENO);
  }
  std::vector<int> others;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", none)) {
    const auto fd = parsed_int<int>(entry.path().filename().string());
    if (fd && *fd > STDERR_FILENO && *fd != null.get()) others.push_back(*fd);
  }
  for (const int fd : others) ::close(fd);
  if (!options.cpus.empty()) bind_process(options.cpus);
  const int niceness = ::nice(10);
  static_cast<void>(niceness);
}

[[noreturn]] void live(const AgentOptions& options, const Environment& env, const Log& log) {
  try {
    detach(options);
    run_agent(options, env, log);
  } catch (const std::exception& error) {
    log.warning(std::string("the node's agent has ended, so nothing samples this node: ") + error.what());
  }
  ::_exit(0);
}

}  // namespace

void run_agent(const AgentOptions& options, const Environment& env, const Log& log) { Agent(options, env, log).run(); }

void start_agent(const AgentOptions& options, const Environment& env, const Log& log) {
  const pid_t child = ::fork();
  if (child < 0) {
    throw Error(ErrorKind::kEnvironment, std::string("fork failed: ") + std::strerror(errno),
                "check the limit on processes (ulimit -u), or leave the agent out with --no-agent");
  }
  if (child == 0) {
    const pid_t agent = ::fork();
    if (agent == 0) live(options, env, log);
    ::_exit(agent < 0 ? 1 : 0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) throw Error(ErrorKind::kEnvironment, "the node's agent could not be started");
}

}  // namespace lockstep
