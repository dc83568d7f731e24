// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/asked_and_used.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "lockstep/base/clock.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/report/numbers.h"

namespace lockstep {
namespace {

constexpr double kReserve = 1.25;  // Factor of the next request over the use.
constexpr double kWorthIt = 0.75;  // A smaller request than this share of the old one is told.
constexpr double kLeastSeen = 60;  // Seconds of agents' samples before cores, memory and devices are judged.
constexpr double kGib = 1 << 30;

std::string clock_text(double seconds) { return hh_mm_ss(std::chrono::seconds(std::llround(seconds))); }

/// Rounds a time up to a multiple of five minutes, since nobody requests seconds.
double rounded_time(double seconds) { return std::ceil(seconds / 300) * 300; }

bool ended_well(const RunReport& report) {
  return report.state == RunState::kFinished || report.state == RunState::kEnded;
}

/// Returns the time that the whole run needs: all planned steps at the speed of the steps made so far.
std::optional<double> whole_run_s(const RunReport& report) {
  if (!report.training || report.training->steps_planned <= report.training->steps_done) return std::nullopt;
  if (report.training->steps_done <= 0) return std::nullopt;
  return report.alive_s * static_cast<double>(report.training->steps_planned) /
         static_cast<double>(report.training->steps_done);
}

AskedAndUsed time_line(const RunReport& report) {
  const double asked = static_cast<double>(report.job->time_s);
  const double used = report.alive_s / std::max(1, report.starts);
  AskedAndUsed line{.what = "time", .asked = clock_text(asked), .used = clock_text(used)};
  if (asked > 0) line.used += " (" + percent_text(used / asked) + ")";
  if (report.starts > 1) line.used += " in the mean of " + counted(report.starts, "start");
  const bool is_short = report.end && report.end->state == "timeout";
  double next = rounded_time(used * kReserve);
  if (is_short) next = rounded_time(whole_run_s(report).value_or(2 * asked) * kReserve);
  if (is_short ? next > asked : ended_well(report) && next < kWorthIt * asked) line.next = "--time " + clock_text(next);
  return line;
}

AskedAndUsed cores_line(const RunReport& report) {
  const auto& asked = report.job->asked;
  double mean = 0;
  double most = 0;
  for (const auto& node : report.telemetry.nodes) {
    mean = std::max(mean, node.mean_cores().value_or(0));
    most = std::max(most, node.cores.peak().value_or(0));
  }
  AskedAndUsed line{
      .what = "cores",
      .asked = asked.cores_per_task > 0 ? std::to_string(asked.cores_per_task) + " a task" : "Slurm's default",
      .used = fixed(mean, 1) + " a task on average, " + fixed(most, 1) + " at most"};
  const int next = std::max(1, static_cast<int>(std::ceil(most * kReserve)));
  if (ended_well(report) && !asked.has_whole_nodes && next < kWorthIt * asked.cores_per_task)
    line.next = "--cores-per-task " + std::to_string(next);
  return line;
}

AskedAndUsed memory_line(const RunReport& report) {
  const auto& asked = report.job->asked;
  const double bytes = slurm_memory_bytes(asked.memory);
  double peak = 0;
  double all = 0;
  for (const auto& node : report.telemetry.nodes) {
    peak = std::max(peak, static_cast<double>(node.memory_peak_bytes));
    all = std::max(all, static_cast<double>(node.memory_total_bytes));
  }
  AskedAndUsed line{.what = "memory",
                    .asked = asked.memory.empty() ? "Slurm's default" : "all of a node",
                    .used = human_bytes(static_cast<std::uint64_t>(peak)) + " on the node with most"};
  if (bytes > 0) line.asked = human_bytes(static_cast<std::uint64_t>(bytes)) + " a node";
  const bool is_short = report.end && report.end->state == "out of memory";
  double next = std::ceil(peak * kReserve / kGib + 1);
  if (is_short) next = std::ceil(std::max(2 * bytes, peak * kReserve) / kGib);
  const bool is_less = bytes > 0 && ended_well(report) && !asked.has_whole_nodes && next * kGib < kWorthIt * bytes;
  const bool is_more = is_short && !asked.has_whole_nodes && (all <= 0 || next * kGib <= all);
  if (is_less || is_more) line.next = "--sbatch=--mem=" + fixed(next, 0) + "G";
  return line;
}

std::optional<AskedAndUsed> devices_line(const RunReport& report) {
  const int asked = report.job->asked.devices;
  if (asked <= 0) return std::nullopt;
  std::int64_t busy = 0;
  bool are_seen = false;
  for (const auto& node : report.telemetry.nodes) {
    if (node.devices.empty()) continue;
    are_seen = true;
    busy = std::max(busy, std::ssize(node.devices) - node.devices_never_busy());
  }
  if (!are_seen) return std::nullopt;
  AskedAndUsed line{
      .what = "devices", .asked = std::to_string(asked) + " a node", .used = std::to_string(busy) + " a node"};
  if (ended_well(report) && busy > 0 && busy < asked) line.next = "--devices " + std::to_string(busy);
  return line;
}

}  // namespace

double slurm_memory_bytes(const std::string& memory) {
  if (memory.empty()) return 0;
  constexpr std::string_view kUnits = "kmgt";
  const auto unit = kUnits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(memory.back()))));
  const auto number = parsed_double(unit == std::string_view::npos ? memory : memory.substr(0, memory.size() - 1));
  // Without a letter, Slurm takes mebibytes.
  return number.value_or(0) * std::pow(1024.0, unit == std::string_view::npos ? 2 : static_cast<double>(unit) + 1);
}

std::vector<AskedAndUsed> asked_and_used(const RunReport& report) {
  if (!report.job || report.alive_s <= 0 || report.state == RunState::kWaiting) return {};
  std::vector<AskedAndUsed> lines = {time_line(report)};
  double seen = 0;
  for (const auto& node : report.telemetry.nodes) seen = std::max(seen, node.alive_s);
  const bool is_out_of_memory = report.end && report.end->state == "out of memory";
  if (!report.job->asked.is_known || (seen < kLeastSeen && !is_out_of_memory)) return lines;
  lines.push_back(cores_line(report));
  lines.push_back(memory_line(report));
  if (auto devices = devices_line(report)) lines.push_back(std::move(*devices));
  return lines;
}

std::string next_command(const RunReport& report, const std::vector<AskedAndUsed>& lines) {
  std::vector<std::string> options;
  for (const auto& each : lines) {
    if (!each.next.empty()) options.push_back(each.next);
  }
  if (options.empty()) return {};
  const auto& job = *report.job;
  const auto words = joined(options, " ");
  return job.is_recipe ? "lockstep submit " + job.name + " … " + words
                       : "lockstep submit … " + words + " -- " + job.command;
}

}  // namespace lockstep
