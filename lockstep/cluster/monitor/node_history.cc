// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/monitor/node_history.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr double kPeriodsOfSilence = 3;
/// The share of a core below which a task counts as waiting. Its libraries' timers use a little.
constexpr double kIdleCores = 0.05;
/// The share of a core above which a task counts as computing, or as spinning while it waits.
constexpr double kBusyCores = 0.5;

const TaskSample* same_task(const std::optional<NodeSample>& sample, const TaskSample& task) {
  if (!sample) return nullptr;
  const auto found = std::ranges::find_if(sample->tasks, [&](const TaskSample& each) {
    return each.task.rank == task.task.rank && each.task.pid == task.task.pid;
  });
  return found == sample->tasks.end() ? nullptr : &*found;
}

/// A task's CPU time is a sum over its processes, so it falls when one of them ends. That counts as no work and not as
/// negative work.
double growth(double before, double after) { return std::max(after - before, 0.0); }

struct Seen {
  const NodeStatus* node;
  const TaskStatus* task;
};

std::vector<Seen> seen_in(std::span<const NodeStatus> nodes) {
  std::vector<Seen> all;
  for (const auto& node : nodes) {
    for (const auto& task : node.tasks) all.push_back({&node, &task});
  }
  return all;
}

/// Returns the one element of `all` for which `is` is true, if it is the only one and `others` is true for all other
/// elements.
template <typename Is, typename Others>
const Seen* only_one(const std::vector<Seen>& all, Is is, Others others) {
  const Seen* found = nullptr;
  for (const auto& each : all) {
    if (is(*each.task)) {
      if (found != nullptr) return nullptr;
      found = &each;
    } else if (!others(*each.task)) {
      return nullptr;
    }
  }
  return found;
}

}  // namespace

std::optional<double> NodeStatus::cores() const {
  std::optional<double> sum;
  for (const auto& task : tasks) {
    if (task.cores) sum = sum.value_or(0) + *task.cores;
  }
  return sum;
}

std::uint64_t NodeStatus::tasks_memory_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& task : tasks) sum += task.memory_bytes;
  return sum;
}

void NodeHistory::take(const TelemetryLine& line) {
  node_ = line.node;
  findings_.take(line);
  if (line.event == "agent_started") {
    *this = NodeHistory();
    node_ = line.node;
    started_ = line.time;
    local_world_ = line.local_world;
    if (line.period_s > 0) period_s_ = line.period_s;
  } else if (line.event == "sample") {
    before_ = std::move(last_);
    last_ = line.sample;
    has_ended_ = false;
  } else if (line.event == "agent_ended") {
    has_ended_ = true;
  }
}

bool NodeHistory::is_fresh(double now) const {
  const double said = std::max(last_ ? last_->time : 0, started_);
  return !has_ended_ && now - said <= kPeriodsOfSilence * period_s_;
}

NodeStatus NodeHistory::status(double now) const {
  NodeStatus status{.node = node_, .local_world = local_world_, .has_ended = has_ended_};
  if (!last_) return status;
  // Clocks of nodes differ, so a sample from the future counts as one from now.
  status.age_s = std::max(now - last_->time, 0.0);
  status.memory = last_->memory;
  status.devices = last_->devices;
  const double seconds = before_ ? last_->time - before_->time : 0;
  double read = 0;
  double written = 0;
  for (const auto& task : last_->tasks) {
    status.tasks.push_back({.rank = task.task.rank,
                            .local_rank = task.task.local_rank,
                            .pid = task.task.pid,
                            .state = task.used.state,
                            .memory_bytes = task.used.memory_bytes,
                            .processes = task.used.processes,
                            .threads = task.used.threads});
    const auto* const was = same_task(before_, task);
    if (was == nullptr || seconds <= 0) continue;
    status.tasks.back().cores = growth(was->used.cpu_seconds, task.used.cpu_seconds) / seconds;
    read += growth(static_cast<double>(was->used.read_bytes), static_cast<double>(task.used.read_bytes));
    written += growth(static_cast<double>(was->used.written_bytes), static_cast<double>(task.used.written_bytes));
  }
  if (status.cores()) {
    status.read_bytes_per_s = read / seconds;
    status.written_bytes_per_s = written / seconds;
  }
  std::ranges::sort(status.tasks, {}, &TaskStatus::rank);
  return status;
}

std::optional<OddRank> odd_rank(std::span<const NodeStatus> nodes) {
  const auto all = seen_in(nodes);
  if (all.size() < 2) return std::nullopt;
  const auto waits = [](const TaskStatus& task) { return task.state == 'D'; };
  const auto is_idle = [](const TaskStatus& task) { return task.cores && *task.cores < kIdleCores; };
  const auto works = [](const TaskStatus& task) { return task.cores && *task.cores >= kBusyCores; };
  const auto any = [](const TaskStatus&) { return true; };
  const auto told = [](const Seen& odd, std::string how) {
    return OddRank{.rank = odd.task->rank, .node = odd.node->node, .how = std::move(how)};
  };
  if (const auto* odd = only_one(all, waits, any)) return told(*odd, "alone waits for a disk or a device (state D)");
  if (const auto* odd = only_one(all, works, is_idle)) return told(*odd, "alone uses a core");
  if (const auto* odd = only_one(all, is_idle, works)) return told(*odd, "alone uses no core");
  return std::nullopt;
}

}  // namespace lockstep
