// SPDX-License-Identifier: Apache-2.0
#include "lockstep/agent/node_health.h"

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

const TaskSample* earlier_of(const TaskSample& task, const NodeSample& before) {
  const auto it = std::ranges::find(before.tasks, task.task.pid, [](const auto& each) { return each.task.pid; });
  return it == before.tasks.end() ? nullptr : &*it;
}

std::string time_of(double seconds) {
  return seconds < 60 ? shortest(seconds) + " s" : shortest(seconds / 60) + " min";
}

std::string stuck_text(const NodeSample& sample, double seconds, bool are_devices_waiting) {
  std::string text = counted(std::ssize(sample.tasks), "task") + " did nothing for " + time_of(seconds) +
                     ": nothing was read or written, ";
  text += are_devices_waiting ? "and the devices are busy with kernels that draw little power, so they wait for a peer"
          : sample.devices.empty() ? "and no core was used"
                                   : "and neither a device nor a core was used";
  return text +
         "\n  hint: `lockstep monitor RUN` shows which rank differs from the others; gdb or py-spy shows where it "
         "stands";
}

std::string idle_text(const std::vector<std::string>& idle, const NodeSample& sample, double seconds) {
  const bool is_all = idle.size() == sample.devices.size();
  return (is_all ? "none of the " + counted(std::ssize(idle), "device") + " worked for "
                 : std::to_string(idle.size()) + " of " + counted(std::ssize(sample.devices), "device") + " (" +
                       joined(idle, ", ") + ") did nothing for ") +
         time_of(seconds) + ", though the tasks compute" +
         (is_all ? "\n  hint: see whether the program uses them: torch.cuda.is_available(), or its --device"
                 : "\n  hint: start one task for each device, or ask for fewer: whole nodes are billed");
}

std::string silent_text(double seconds) {
  return "the devices' driver has not answered for " + time_of(seconds) +
         ", so what the devices use and draw is not recorded"
         "\n  hint: if nvidia-smi or rocm-smi hangs on this node too, leave the node out with --sbatch=--exclude=NODE, "
         "and tell the site";
}

}  // namespace

std::vector<HealthFinding> NodeHealth::look(const NodeSample& sample) {
  std::vector<HealthFinding> told;
  if (limits_.window_s <= 0) return told;
  look_at_tasks(sample);
  look_at_devices(sample);
  last_ = sample;
  tell(sample.devices_silent_s >= limits_.silence_s, {"devices-silent", silent_text(limits_.silence_s)}, told);
  const bool is_stuck_now = sample.devices_silent_s == 0 && is_stuck(sample);
  tell(is_stuck_now, {"tasks-stuck", stuck_text(sample, limits_.window_s, are_devices_waiting(sample.time))}, told);
  const auto idle = idle_devices(sample.time);
  const bool has_idle = !idle.empty() && !sample.tasks.empty() && !is_stuck_now;
  tell(has_idle, {"device-idle", idle_text(idle, sample, limits_.window_s)}, told);
  return told;
}

void NodeHealth::look_at_tasks(const NodeSample& sample) {
  const double passed = std::max(sample.time - last_.time, 1e-3);
  for (const auto& task : sample.tasks) {
    const auto* before = earlier_of(task, last_);
    // A process that was not in the last sample counts as working.
    const bool is_new = before == nullptr;
    if (is_new || task.used.cpu_seconds - before->used.cpu_seconds > limits_.cores * passed)
      cores_used_at_ = sample.time;
    if (is_new || task.used.read_bytes != before->used.read_bytes ||
        task.used.written_bytes != before->used.written_bytes)
      disk_used_at_ = sample.time;
  }
}

void NodeHealth::look_at_devices(const NodeSample& sample) {
  const auto is_there = [&](const std::string& pci) {
    return std::ranges::find(sample.devices, pci, [](const auto& each) { return each.pci; }) != sample.devices.end();
  };
  std::erase_if(devices_, [&](const auto& each) { return !is_there(each.first); });  // It may be idle, or not.
  // On an MI250X one of the two dies reports the power of both.
  const bool tells_power =
      std::ranges::any_of(sample.devices, [](const auto& each) { return each.power_watts.has_value(); });
  for (const auto& each : sample.devices) look_at_device(each, sample.time, tells_power);
}

void NodeHealth::look_at_device(const DeviceSample& sample, double time, bool tells_power) {
  auto [it, is_new] = devices_.try_emplace(sample.pci);
  auto& device = it->second;
  const double watts = sample.power_watts.value_or(0);
  device.most_watts = std::max(device.most_watts, watts);
  device.tells_use = sample.busy_percent.has_value();
  // If the driver reports no use, the device does not count as idle.
  const bool is_used = is_new || sample.busy_percent.value_or(100) >= limits_.busy_percent;
  if (is_used) device.used_at = time;
  const bool is_drawing = sample.power_watts ? watts >= limits_.power_share * device.most_watts : !tells_power;
  if (is_new || (is_used && is_drawing)) device.worked_at = time;
}

bool NodeHealth::are_devices_waiting(double time) const {
  return std::ranges::any_of(devices_, [&](const auto& each) {
    const auto& device = each.second;
    return device.tells_use && !is_past(device.used_at, time) && is_past(device.worked_at, time);
  });
}

bool NodeHealth::is_stuck(const NodeSample& sample) const {
  const double time = sample.time;
  if (sample.tasks.empty() || !is_past(disk_used_at_, time)) return false;
  for (const auto& [pci, device] : devices_) {
    if (!is_past(device.worked_at, time)) return false;
  }
  return is_past(cores_used_at_, time) || are_devices_waiting(time);
}

std::vector<std::string> NodeHealth::idle_devices(double time) const {
  std::vector<std::string> idle;
  for (const auto& [pci, device] : devices_) {
    if (is_past(device.used_at, time)) idle.push_back(pci);
  }
  return idle;
}

void NodeHealth::tell(bool holds, const HealthFinding& finding, std::vector<HealthFinding>& told) {
  if (holds && holding_.insert(finding.code).second) told.push_back(finding);
  if (!holds && holding_.erase(finding.code) != 0) told.push_back({.code = finding.code});
}

}  // namespace lockstep
