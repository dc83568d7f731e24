// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/sections.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/clock.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/base/unit_column.h"
#include "lockstep/cluster/report/asked_and_used.h"
#include "lockstep/cluster/report/numbers.h"

namespace lockstep {
namespace {

constexpr std::size_t kFirstRows = 3;  // Of a long table: its first and its last ones.
constexpr std::size_t kLastRows = 7;

std::string size_text(const RunReport& report) {
  std::string text = counted(report.nodes, "node");
  if (report.tasks > 0) text += ", " + counted(report.tasks, "task");
  return text;
}

std::string state_text(const RunReport& report) {
  std::string text(name_of(report.state));
  if (!report.stopped_by.empty()) text += " (" + report.stopped_by + ")";
  if (report.state == RunState::kFailed && report.end->state != "failed") text += " (" + report.end->state + ")";
  return text;
}

std::string facts_text(const std::map<std::string, std::string>& facts) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : facts) {
    if (!value.empty()) parts.push_back(name + " " + value);
  }
  return joined(parts, ", ");
}

std::string metrics_text(const std::map<std::string, double>& metrics) {
  std::vector<std::string> parts;
  parts.reserve(metrics.size());
  for (const auto& [name, value] : metrics) parts.push_back(name + " " + number_text(value));
  return joined(parts, ", ");
}

ReportSection run_section(const RunReport& report) {
  ReportSection section{.title = "Run"};
  auto& facts = section.facts;
  facts.push_back({"folder", report.path.string()});
  if (report.job) {
    const auto& job = *report.job;
    facts.push_back({"job", job.job + " on " + job.cluster + ", " + hh_mm_ss(std::chrono::seconds(job.time_s)) +
                                " asked for: " + job.command});
  }
  facts.push_back({"size", size_text(report)});
  facts.push_back({"state", state_text(report)});
  if (report.started) facts.push_back({"started", moment_text(*report.started)});
  if (report.last) {
    const bool goes_on = report.state == RunState::kRunning || report.state == RunState::kUnknown;
    facts.push_back({goes_on ? "last heard" : "ended", moment_text(*report.last)});
    std::string time = seconds_text(report.alive_s) + " with its start";
    // Between two starts the run waited in the queue, or waited for somebody to start it again.
    const double span = *report.last - *report.started;
    if (report.starts > 1 && span > report.alive_s) time += ", within " + seconds_text(span);
    facts.push_back({"wall time", time + "; " + billed_text(report.billed_hours(), report.billing().unit)});
  }
  if (!report.sizes.empty()) {
    facts.push_back({"sizes", joined(map_each(report.sizes, [](int nodes) { return std::to_string(nodes); }), ", ") +
                                  " nodes, start by start"});
  }
  if (report.starts > 0) {
    facts.push_back({"starts", std::to_string(report.starts) +
                                   (report.starts > 1 ? ": " + counted(report.starts - 1, "restart") : std::string())});
  }
  if (!report.facts.empty()) facts.push_back({"facts", facts_text(report.facts)});
  return section;
}

std::string iterations_text(const TrainingReport& training) {
  const auto& run = training.figures;
  std::string text = std::to_string(training.steps_per_epoch) + " steps an epoch on each of " +
                     counted(run.ranks, "rank") + "; a step takes " + fixed(run.batch, 0) + " samples of each, " +
                     std::to_string(run.global_batch) + " together";
  return text;
}

std::string phases_text(const RunFigures& run) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kEpochPhases.size(); ++i) {
    const double seconds = run.phases_s.at(i);
    parts.push_back(std::string(kEpochPhases.at(i)) + " " + seconds_text(seconds) + " (" +
                    percent_text(run.epoch_s > 0 ? seconds / run.epoch_s : 0) + ")");
  }
  return joined(parts, ", ");
}

std::string progress_text(const TrainingReport& training) {
  std::string text = fixed(training.epochs_done, training.epochs_done == std::floor(training.epochs_done) ? 0 : 2);
  if (training.epochs_planned > 0) text += " of " + std::to_string(training.epochs_planned);
  text += ", " + std::to_string(training.steps_done);
  if (training.steps_planned > 0) text += " of " + std::to_string(training.steps_planned);
  return text + " steps";
}

std::string spread_text(const StepSpread& spread) {
  return "median " + seconds_text(spread.median_s) + " over " +
         counted(static_cast<std::int64_t>(spread.lines), "logged line") + ", " + seconds_text(spread.fastest_s) +
         " at least, " + seconds_text(spread.slowest_s) + " at most (before step " + std::to_string(spread.slowest_at) +
         ")";
}

ReportSection training_section(const TrainingReport& training) {
  ReportSection section{.title = "Training"};
  auto& facts = section.facts;
  const auto& run = training.figures;
  facts.push_back({"epochs", progress_text(training)});
  facts.push_back({"iterations", iterations_text(training)});
  if (training.parameters > 0) facts.push_back({"parameters", count_text(training.parameters)});
  facts.push_back({"speed", fixed(run.samples_per_second, 0) + " samples/s, " + seconds_text(run.step_s) + " a step"});
  if (training.time_to_first_step_s)
    facts.push_back({"first step after", seconds_text(*training.time_to_first_step_s)});
  facts.push_back({"an epoch", seconds_text(run.epoch_s) + ": " + phases_text(run)});
  if (training.step_spread) facts.push_back({"step time", spread_text(*training.step_spread)});
  if (!training.metrics.empty()) facts.push_back({"last metrics", metrics_text(training.metrics)});
  if (training.snapshot) {
    const auto& kept = *training.snapshot;
    const auto metrics = metrics_text(kept.metrics);
    facts.push_back(
        {kept.is_best ? "best snapshot" : "last snapshot", kept.name + (metrics.empty() ? "" : ": " + metrics)});
  }
  if (training.device_peak_bytes > 0) {
    facts.push_back({"device memory", human_bytes(static_cast<std::uint64_t>(training.device_peak_bytes)) +
                                          " at most, in rank 0's tensors"});
  }
  return section;
}

/// Adds the first and the last rows of a long table to a section.
void set_table(ReportSection& section, TableRows rows) {
  const std::size_t shown = kFirstRows + kLastRows;
  if (rows.size() > 1 + shown) {
    section.sentences.push_back("Of " + std::to_string(rows.size() - 1) + " rows the first " +
                                std::to_string(kFirstRows) + " and the last " + std::to_string(kLastRows) +
                                " are shown; --json has them all.");
    rows.erase(rows.begin() + 1 + kFirstRows, rows.end() - kLastRows);
  }
  section.table = std::move(rows);
}

ReportSection epochs_section(const TrainingReport& training) {
  ReportSection section{.title = "Epochs"};
  if (const auto words = first_epoch_words(training); !words.empty()) section.sentences.push_back(words);
  std::vector<TableColumn> columns = {{"epoch"}, {"steps"}};
  ColumnValues all;
  std::array<ColumnValues, kEpochPhases.size()> phases;
  for (const auto& each : training.epochs) {
    // Epochs are counted from 1 here, as in the progress display.
    columns[0].push_back(std::to_string(each.epoch + 1));
    columns[1].push_back(std::to_string(each.steps));
    all.emplace_back(each.seconds);
    for (std::size_t i = 0; i < phases.size(); ++i) phases.at(i).emplace_back(each.phases_s.at(i));
  }
  columns.push_back(time_column("time", all));
  for (std::size_t i = 0; i < phases.size(); ++i) columns.push_back(time_column(kEpochPhases.at(i), phases.at(i)));
  set_table(section, rows_of_columns(columns));
  return section;
}

/// Returns the largest device memory. Nothing if no device reports it.
std::optional<double> device_memory_peak(const NodeSummary& node) {
  std::uint64_t peak = 0;
  for (const auto& device : node.devices) peak = std::max(peak, device.memory_peak_bytes.value_or(0));
  return peak > 0 ? std::optional(static_cast<double>(peak)) : std::nullopt;
}

/// Returns the memory of a device. Nothing if no driver reports it.
std::optional<double> device_memory(const NodeSummary& node) {
  std::uint64_t most = 0;
  for (const auto& device : node.devices) most = std::max(most, device.memory_total_bytes);
  return most > 0 ? std::optional(static_cast<double>(most)) : std::nullopt;
}

std::string mean_and_peak(const Spread& spread, int digits) {
  if (spread.count == 0) return "-";
  return fixed(*spread.mean(), digits) + " / " + fixed(*spread.peak(), digits);
}

ReportSection::Fact energy_fact(const RunReport& report) {
  double joules = 0;
  std::int64_t reporting = 0;
  std::int64_t devices = 0;
  for (const auto& node : report.telemetry.nodes) {
    joules += node.energy_joules();
    reporting += node.devices_with_power();
    devices += std::ssize(node.devices);
  }
  std::string text = significant(joules / 3.6e6, 4) + " kWh, from the " + std::to_string(reporting) + " of " +
                     counted(devices, "device") + " that report power";
  if (reporting < devices) text += "; of an MI250X's two dies one reports both's";
  if (const auto each = report.kwh_per_sample()) text += "; " + significant(*each, 3) + " kWh a sample";
  return {"energy", text};
}

/// `value` of each node.
template <typename Value>
ColumnValues of_nodes(const std::vector<NodeSummary>& nodes, Value value) {
  ColumnValues values;
  for (const auto& node : nodes) values.emplace_back(value(node));
  return values;
}

template <typename Text>
TableColumn text_column(const std::string& head, const std::vector<NodeSummary>& nodes, Text text) {
  TableColumn column = {head};
  for (const auto& node : nodes) column.push_back(text(node));
  return column;
}

std::vector<TableColumn> node_columns(const std::vector<NodeSummary>& nodes) {
  using Node = const NodeSummary&;
  const auto cores = [](Node node) {
    const auto mean = node.mean_cores();
    return mean ? fixed(*mean, 2) + " / " + fixed(*node.cores.peak(), 2) : "-";
  };
  return {text_column("node", nodes, [](Node node) { return node.node; }),
          text_column("tasks", nodes, [](Node node) { return std::to_string(node.tasks); }),
          time_column("time", of_nodes(nodes, [](Node node) { return node.alive_s; })),
          text_column("cores a task", nodes, cores),
          bytes_column("memory of tasks", of_nodes(nodes, [](Node node) { return node.memory_peak_bytes; })),
          bytes_column("read", of_nodes(nodes, [](Node node) { return node.read_bytes; })),
          bytes_column("written", of_nodes(nodes, [](Node node) { return node.written_bytes; }))};
}

std::vector<TableColumn> device_columns(const std::vector<NodeSummary>& nodes) {
  using Node = const NodeSummary&;
  return {text_column("node", nodes, [](Node node) { return node.node; }),
          text_column("devices", nodes, [](Node node) { return std::to_string(node.devices.size()); }),
          text_column("busy %", nodes, [](Node node) { return mean_and_peak(node.busy(), 0); }),
          text_column("power W", nodes, [](Node node) { return mean_and_peak(node.power(), 0); }),
          bytes_column("memory", of_nodes(nodes, device_memory_peak)),
          bytes_column("of", of_nodes(nodes, device_memory))};
}

ReportSection nodes_section(const RunReport& report) {
  ReportSection section{.title = "Nodes"};
  const auto& nodes = report.telemetry.nodes;
  set_table(section, rows_of_columns(node_columns(nodes)));
  double waiting = 0;
  for (const auto& node : nodes) waiting = std::max(waiting, node.share_waiting);
  if (waiting > 0) {
    section.facts.push_back({"waiting", "tasks' first threads waited for a disk or a device in " +
                                            percent_text(waiting) + " of samples, on the node where most"});
  }
  if (const auto odd = odd_node(nodes)) {
    section.facts.push_back({"most different", odd->node + ": " + odd->measure + " " + number_text(odd->value) +
                                                   odd->unit + ", the nodes' median is " + number_text(odd->median) +
                                                   odd->unit});
  }
  section.sentences.emplace_back(
      "Two numbers are the mean and the most. Read and written are from and to storage, at least.");
  return section;
}

ReportSection devices_section(const RunReport& report) {
  ReportSection section{.title = "Devices"};
  const auto& nodes = report.telemetry.nodes;
  if (!std::ranges::any_of(nodes, [](const auto& each) { return !each.devices.empty(); })) return section;
  set_table(section, rows_of_columns(device_columns(nodes)));
  const bool has_power = std::ranges::any_of(nodes, [](const auto& each) { return each.devices_with_power() > 0; });
  if (has_power) section.facts.push_back(energy_fact(report));
  std::int64_t never_busy = 0;
  for (const auto& node : nodes) never_busy += node.devices_never_busy();
  if (never_busy > 0) {
    section.facts.push_back(
        {"never busy", counted(never_busy, "device") + ": not this job's, or paid for and not used"});
  }
  section.sentences.emplace_back(
      "Busy misleads: a kernel that waits for another rank counts as busy. Power tells more.");
  return section;
}

ReportSection findings_section(const RunReport& report) {
  ReportSection section{.title = "Findings"};
  for (const auto& node : report.telemetry.nodes) {
    for (const auto& each : node.findings) {
      const auto name = (each.code.empty() ? std::string("warning") : each.code) + " on " + each.node;
      const auto when = "since " + moment_text(each.since) + ", " +
                        (each.over ? "for " + seconds_text(*each.over - each.since) : "to the end");
      section.facts.push_back({name, each.fact() + " (" + when + ")", each.hint()});
    }
  }
  return section;
}

/// Returns the section that compares requested resources with used ones, and suggests the next request.
ReportSection asked_section(const RunReport& report) {
  ReportSection section{.title = "Asked and used"};
  const auto lines = asked_and_used(report);
  for (const auto& each : lines) section.facts.push_back({each.what, each.asked + " asked for; used " + each.used});
  const auto next = next_command(report, lines);
  if (!next.empty()) section.facts.push_back({"next time", next});
  return section;
}

}  // namespace

std::string first_epoch_words(const TrainingReport& training) {
  if (!training.first_epoch) return {};
  const auto& first = *training.first_epoch;
  const double more_s = first.seconds - first.later_s;
  if (first.seconds <= first.slowest_later_s) {
    return "The first epoch was no slower than the others: it took " + seconds_text(first.seconds) +
           ", the slowest later one " + seconds_text(first.slowest_later_s) + ".";
  }
  std::string text = "The first epoch took " + seconds_text(first.seconds) + "; the median of the later ones is " +
                     seconds_text(first.later_s) + ": " + seconds_text(more_s) + " (" +
                     percent_text(more_s / first.later_s) + ") more.";
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kEpochPhases.size(); ++i) {
    const double seconds = first.more_s.at(i);
    // A part counts if it is at least a tenth of the difference, as in the rest of the report.
    if (seconds >= kNoticedLoss * more_s)
      parts.push_back(seconds_text(seconds) + " in " + std::string(kEpochPhases.at(i)));
  }
  if (!parts.empty()) text += " Of that, " + joined(parts, ", ") + ".";
  if (first.first_steps_more_s >= kNoticedLoss * more_s) {
    text +=
        " Its first " + counted(first.first_steps, "step") + " alone took " + seconds_text(first.first_steps_more_s) +
        " more than as many later ones: kernels are loaded and chosen, memory is set aside, connections are made and "
        "files are read for the first time.";
  }
  if (training.time_to_first_step_s) {
    text +=
        " The start before it, " + seconds_text(*training.time_to_first_step_s) + " to the first step, comes on top.";
  }
  return text;
}

std::vector<ReportSection> report_sections(const RunReport& report) {
  std::vector<ReportSection> sections;
  if (!report.last_lines.empty()) {
    const bool is_rank = report.first_exit && !report.first_exit->rank.last.empty();
    sections.push_back({.title = is_rank ? "Last lines of rank " + std::to_string(report.first_exit->rank.rank)
                                         : std::string("Last lines of the log"),
                        .lines = report.last_lines});
  }
  sections.push_back(run_section(report));
  if (auto asked = asked_section(report); !asked.facts.empty()) sections.push_back(std::move(asked));
  if (report.training) {
    sections.push_back(training_section(*report.training));
    if (!report.training->epochs.empty()) sections.push_back(epochs_section(*report.training));
  }
  if (!report.telemetry.nodes.empty()) sections.push_back(nodes_section(report));
  if (auto devices = devices_section(report); !devices.table.empty()) sections.push_back(std::move(devices));
  if (auto findings = findings_section(report); !findings.facts.empty()) sections.push_back(std::move(findings));
  return sections;
}

}  // namespace lockstep
