// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/record/node_findings.h"
#include "lockstep/cluster/record/time_curve.h"

namespace lockstep {

/// The mean and the peak of some values, and their number.
struct Spread {
  double sum = 0;
  double max = 0;
  std::int64_t count = 0;

  void add(double value);
  void add(const Spread& other);
  std::optional<double> mean() const;
  std::optional<double> peak() const;
};

struct DeviceSummary {
  std::string pci{};
  Spread busy_percent{};
  Spread power_watts{};
  Spread temperature_celsius{};
  double energy_joules = 0;  ///< The power's integral, by trapezia between two samples of one agent.
  std::optional<std::uint64_t> memory_peak_bytes{};
  std::uint64_t memory_total_bytes = 0;  ///< 0 if the driver does not report it.
};

/// One node's telemetry over a run, including restarts.
struct NodeSummary {
  std::string node{};
  double first = 0;  ///< Of its lines, in seconds since 1970. 0 if it has none.
  double last = 0;
  double alive_s = 0;      ///< Of its agents together, so without what lies between two starts.
  int agents = 0;          ///< Number of agents started here, one more than restarts.
  bool has_ended = false;  ///< Its last agent.
  int tasks = 0;           ///< As the last agent had it.
  std::int64_t samples = 0;
  Spread cores{};  ///< For one task between two samples, processor seconds per second.
  double core_seconds = 0;
  double task_seconds = 0;   ///< Over which core_seconds were measured.
  double share_waiting = 0;  ///< Share of task samples whose first thread waited for a disk or a device (state D).
  std::uint64_t task_memory_peak_bytes = 0;  ///< Of the task with most.
  std::uint64_t memory_peak_bytes = 0;       ///< Of all tasks together.
  std::uint64_t memory_total_bytes = 0;      ///< The node's.
  std::uint64_t read_bytes = 0;  ///< From storage. At least: what a process did since the last sample before its end is
  std::uint64_t written_bytes = 0;  ///< lost.
  std::vector<DeviceSummary> devices{};
  std::vector<NodeFinding> findings{};

  std::optional<double> mean_cores() const;
  /// Returns the use of the devices that were busy at least once, since others may belong to another job. If no device
  /// was ever busy, all count.
  Spread busy() const;
  std::int64_t devices_never_busy() const;
  Spread power() const;  ///< Of those that report it.
  double energy_joules() const;
  std::int64_t devices_with_power() const;
};

/// A summary of a run's telemetry. Its memory does not grow with the length of the run.
struct TelemetrySummary {
  std::vector<NodeSummary> nodes{};
  TimeCurve busy{2};   ///< Percent, mean of all devices.
  TimeCurve power{2};  ///< Watts, mean of the devices that report it.
  TimeCurve cores{2};  ///< Mean of all tasks.
};

/// Reads each node's file once, from its beginning to its end.
///
/// Throws: Error(kIo) if a file cannot be read. Lines that are not understood are skipped.
TelemetrySummary telemetry_summary(const std::filesystem::path& run_dir);

/// Returns the node that differs most from the others, if there are at least two nodes.
struct OddNode {
  std::string node{};
  std::string measure{};  ///< "power", "device busy" or "cores of a task".
  std::string unit{};     ///< " W", " %" or "".
  double value = 0;
  double median = 0;  ///< Of all nodes.
};
std::optional<OddNode> odd_node(const std::vector<NodeSummary>& nodes);

}  // namespace lockstep
