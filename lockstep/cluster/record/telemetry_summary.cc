// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/telemetry_summary.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "lockstep/base/median.h"
#include "lockstep/cluster/record/run_timeline.h"

namespace lockstep {
namespace {

/// Adds up one node's lines of telemetry, one after the other.
class NodeReader {
 public:
  NodeReader(NodeSummary& node, TelemetrySummary& all) : node_(node), all_(all) {}

  void take(const TelemetryLine& line) {
    if (node_.node.empty()) node_.node = line.node;
    if (node_.first == 0) node_.first = line.time;
    if (line.event == "agent_started") start(line);
    if (line.event == "sample") take_sample(line.sample);
    findings_.take(line);
    if (line.event == "agent_ended") node_.has_ended = true;
    // The start of an agent begins a new interval. If the line of the start is lost, the next line does.
    if (last_ > 0) node_.alive_s += std::max(0.0, line.time - last_);
    last_ = std::max(last_, line.time);
    node_.last = std::max(node_.last, line.time);
  }

  void finish() {
    node_.findings = findings_.all();
    if (task_samples_ > 0) node_.share_waiting = static_cast<double>(waiting_) / static_cast<double>(task_samples_);
  }

 private:
  struct TaskBefore {
    double time = 0;
    TreeSample used{};
  };
  struct PowerBefore {
    double time = 0;
    double watts = 0;
  };

  void start(const TelemetryLine& line) {
    ++node_.agents;
    node_.has_ended = false;
    node_.tasks = line.local_world;
    // The time between the end of one agent and the start of the next is not part of the run.
    last_ = 0;
    tasks_.clear();
    power_.clear();
  }

  void take_sample(const NodeSample& sample) {
    ++node_.samples;
    node_.memory_total_bytes = std::max(node_.memory_total_bytes, sample.memory.total_bytes);
    std::uint64_t memory = 0;
    std::map<pid_t, TaskBefore> now;
    for (const auto& task : sample.tasks) {
      memory += task.used.memory_bytes;
      node_.task_memory_peak_bytes = std::max(node_.task_memory_peak_bytes, task.used.memory_bytes);
      ++task_samples_;
      waiting_ += task.used.state == 'D';
      compare(task, sample.time);
      now[task.task.pid] = {sample.time, task.used};
    }
    tasks_ = std::move(now);
    node_.memory_peak_bytes = std::max(node_.memory_peak_bytes, memory);
    if (node_.devices.size() < sample.devices.size()) node_.devices.resize(sample.devices.size());
    power_.resize(node_.devices.size());
    for (std::size_t i = 0; i < sample.devices.size(); ++i) take_device(sample.devices[i], i, sample.time);
  }

  static std::uint64_t grown(std::uint64_t from, std::uint64_t to) { return to > from ? to - from : 0; }

  void compare(const TaskSample& task, double time) {
    const auto it = tasks_.find(task.task.pid);
    // A task's work before its first sample counts too.
    const auto before = it == tasks_.end() ? TaskBefore{} : it->second;
    node_.read_bytes += grown(before.used.read_bytes, task.used.read_bytes);
    node_.written_bytes += grown(before.used.written_bytes, task.used.written_bytes);
    if (it == tasks_.end() || time <= before.time || task.used.cpu_seconds < before.used.cpu_seconds) return;
    const double seconds = time - before.time;
    const double used = task.used.cpu_seconds - before.used.cpu_seconds;
    node_.cores.add(used / seconds);
    node_.core_seconds += used;
    node_.task_seconds += seconds;
    all_.cores.add(time, used / seconds);
  }

  void take_device(const DeviceSample& sample, std::size_t index, double time) {
    auto& device = node_.devices[index];
    device.pci = sample.pci;
    if (sample.busy_percent) {
      device.busy_percent.add(*sample.busy_percent);
      all_.busy.add(time, *sample.busy_percent);
    }
    if (sample.temperature_celsius) device.temperature_celsius.add(*sample.temperature_celsius);
    if (sample.memory_used_bytes) {
      device.memory_peak_bytes = std::max(device.memory_peak_bytes.value_or(0), *sample.memory_used_bytes);
    }
    device.memory_total_bytes = std::max(device.memory_total_bytes, sample.memory_total_bytes.value_or(0));
    auto& before = power_[index];
    if (!sample.power_watts) {
      before.reset();
      return;
    }
    device.power_watts.add(*sample.power_watts);
    all_.power.add(time, *sample.power_watts);
    if (before && time > before->time) {
      device.energy_joules += (before->watts + *sample.power_watts) / 2 * (time - before->time);
    }
    before = PowerBefore{time, *sample.power_watts};
  }

  NodeSummary& node_;
  TelemetrySummary& all_;
  NodeFindings findings_;
  double last_ = 0;
  std::map<pid_t, TaskBefore> tasks_;
  std::vector<std::optional<PowerBefore>> power_;
  std::int64_t task_samples_ = 0;
  std::int64_t waiting_ = 0;
};

/// Returns the node whose value of one measure differs most from the median, relative to the median. If two differ
/// equally, it is the first one.
std::optional<OddNode> odd_by(const std::vector<NodeSummary>& nodes, OddNode odd,
                              const std::function<std::optional<double>(const NodeSummary&)>& value_of) {
  std::vector<double> values;
  for (const auto& node : nodes) {
    const auto value = value_of(node);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  const double median = median_of(values);
  if (median <= 0) return std::nullopt;
  odd.value = odd.median = median;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const double distance = std::abs(values[i] - median);
    const double farthest = std::abs(odd.value - median);
    if (distance > farthest || (distance == farthest && distance > 0 && values[i] < odd.value)) {
      odd.node = nodes[i].node;
      odd.value = values[i];
    }
  }
  return odd.node.empty() ? std::nullopt : std::optional(odd);
}

}  // namespace

void Spread::add(double value) {
  max = count == 0 ? value : std::max(max, value);
  sum += value;
  ++count;
}

void Spread::add(const Spread& other) {
  if (other.count == 0) return;
  max = count == 0 ? other.max : std::max(max, other.max);
  sum += other.sum;
  count += other.count;
}

std::optional<double> Spread::mean() const {
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

std::optional<double> Spread::peak() const { return count == 0 ? std::nullopt : std::optional(max); }

std::optional<double> NodeSummary::mean_cores() const {
  return task_seconds > 0 ? std::optional(core_seconds / task_seconds) : std::nullopt;
}

Spread NodeSummary::busy() const {
  Spread used;
  Spread all;
  for (const auto& device : devices) {
    all.add(device.busy_percent);
    if (device.busy_percent.max > 0) used.add(device.busy_percent);
  }
  return used.count > 0 ? used : all;
}

std::int64_t NodeSummary::devices_never_busy() const {
  return std::ranges::count_if(
      devices, [](const auto& each) { return each.busy_percent.count > 0 && each.busy_percent.max == 0; });
}

Spread NodeSummary::power() const {
  Spread all;
  for (const auto& device : devices) all.add(device.power_watts);
  return all;
}

double NodeSummary::energy_joules() const {
  double all = 0;
  for (const auto& device : devices) all += device.energy_joules;
  return all;
}

std::int64_t NodeSummary::devices_with_power() const {
  return std::ranges::count_if(devices, [](const auto& each) { return each.power_watts.count > 0; });
}

TelemetrySummary telemetry_summary(const std::filesystem::path& run_dir) {
  TelemetrySummary all;
  for (const auto& path : telemetry_files(run_dir)) {
    NodeSummary node;
    NodeReader reader(node, all);
    read_telemetry(path, [&](const TelemetryLine& line) { reader.take(line); });
    reader.finish();
    // An agent that was killed right after its start leaves an empty file.
    if (!node.node.empty()) all.nodes.push_back(std::move(node));
  }
  return all;
}

std::optional<OddNode> odd_node(const std::vector<NodeSummary>& nodes) {
  if (nodes.size() < 2) return std::nullopt;
  std::optional<OddNode> oddest;
  for (auto& each :
       {odd_by(nodes, {.measure = "power", .unit = " W"}, [](const auto& node) { return node.power().mean(); }),
        odd_by(nodes, {.measure = "device busy", .unit = " %"}, [](const auto& node) { return node.busy().mean(); }),
        odd_by(nodes, {.measure = "cores of a task"}, [](const auto& node) { return node.mean_cores(); })}) {
    const auto distance = [](const OddNode& odd) { return std::abs(odd.value - odd.median) / odd.median; };
    if (each && (!oddest || distance(*each) > distance(*oddest))) oddest = each;
  }
  return oddest;
}

}  // namespace lockstep
