// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/monitor/status_text.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/median.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/base/text_table.h"
#include "lockstep/observe/terminal_line.h"

namespace lockstep {
namespace {

constexpr std::string_view kNothing = "–";

std::string duration(double seconds) { return hh_mm_ss(std::chrono::seconds(std::llround(seconds))); }

template <typename Value, typename Text>
std::string or_dash(const std::optional<Value>& value, Text text) {
  return value ? text(*value) : std::string(kNothing);
}

std::string rate(double bytes_per_s) { return human_bytes(static_cast<std::uint64_t>(bytes_per_s)) + "/s"; }

/// Formats a part of a whole, such as "1.5 of 15.6 GiB". Both numbers have the unit of the whole.
std::string part_of_bytes(std::uint64_t part, std::uint64_t whole) {
  const auto text = human_bytes(whole);
  double unit = 1;
  for (auto rest = whole; rest >= 1024; rest /= 1024) unit *= 1024;
  return fixed(static_cast<double>(part) / unit, 1) + " of " + text;
}

std::string part_of(std::int64_t part, std::int64_t whole) {
  return std::to_string(part) + (whole > 0 ? "/" + std::to_string(whole) : "");
}

std::string head_of(const RunStatus& status) {
  std::vector<std::string> parts;
  if (!status.name.empty()) parts.push_back(status.name);
  if (!status.job.empty()) parts.push_back("job " + status.job);
  if (!status.state.empty()) parts.push_back(status.state);
  if (status.nodes > 0) parts.push_back(counted(status.nodes, "node"));
  if (status.tasks > 0) parts.push_back(counted(status.tasks, "task"));
  return joined(parts, kSeparator);
}

std::string training_text(const TrainingStatus& training) {
  std::vector<std::string> parts;
  if (training.epoch) parts.push_back("epoch " + part_of(*training.epoch + 1, training.epochs));
  parts.push_back("step " + part_of(training.step, training.steps_total));
  if (training.loss) parts.push_back("loss " + significant(*training.loss, 4));
  if (const auto speed = training.samples_per_second) {
    parts.push_back((*speed < 100 ? significant(*speed, 4) : fixed(*speed, 0)) + " samples/s");
  }
  for (const auto& [name, value] : training.validation) parts.push_back(name + " " + significant(value, 4));
  if (training.seconds_left) parts.push_back(duration(*training.seconds_left) + " left");
  if (training.has_ended) {
    parts.push_back("ended" + (training.stopped_by.empty() ? "" : " by " + training.stopped_by));
  }
  return joined(parts, kSeparator);
}

const std::vector<std::string> kColumns = {"node",        "tasks", "cores",   "of tasks",
                                           "node memory", "read",  "written", "sample"};

std::string age_of(const NodeStatus& node) {
  if (node.has_ended) return "ended";
  if (!node.age_s) return std::string(kNothing);
  const auto ago = *node.age_s < 100 ? fixed(*node.age_s, 0) + " s" : duration(*node.age_s);
  return (node.is_silent ? "silent for " : "") + ago + (node.is_silent ? "" : " ago");
}

std::vector<std::string> cells_of(const NodeStatus& node) {
  const auto& memory = node.memory;
  const auto dash = std::string(kNothing);
  return {
      node.node,
      node.age_s ? part_of(std::ssize(node.tasks), node.local_world) : dash,
      or_dash(node.cores(), [](double cores) { return fixed(cores, 1); }),
      node.tasks.empty() ? dash : human_bytes(node.tasks_memory_bytes()),
      memory.total_bytes > 0 ? part_of_bytes(memory.total_bytes - memory.available_bytes, memory.total_bytes) : dash,
      or_dash(node.read_bytes_per_s, rate),
      or_dash(node.written_bytes_per_s, rate),
      age_of(node)};
}

/// Formats one number per device, such as "98 97 – 99". Empty if no device reports one.
template <typename Number>
std::string device_numbers(const std::vector<DeviceSample>& devices, Number number) {
  const bool any = std::ranges::any_of(devices, [&](const auto& each) { return number(each).has_value(); });
  if (!any) return {};
  return joined(
      map_each(devices,
               [&](const auto& each) { return or_dash(number(each), [](double value) { return fixed(value, 0); }); }),
      " ");
}

std::string device_memory(const std::vector<DeviceSample>& devices) {
  constexpr double kGiB = 1 << 30;
  std::uint64_t total = 0;
  for (const auto& each : devices) total = std::max(total, each.memory_total_bytes.value_or(0));
  if (total == 0) return {};
  const auto used = map_each(devices, [](const auto& each) {
    return or_dash(each.memory_used_bytes, [](auto bytes) { return fixed(static_cast<double>(bytes) / kGiB, 1); });
  });
  return joined(used, " ") + " of " + fixed(static_cast<double>(total) / kGiB, 1) + " GiB";
}

std::string devices_text(const std::vector<DeviceSample>& devices) {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& numbers, std::string_view unit) {
    if (!numbers.empty()) parts.push_back(numbers + std::string(unit));
  };
  add(device_numbers(devices, [](const auto& each) { return each.busy_percent; }), " % busy");
  add(device_numbers(devices, [](const auto& each) { return each.power_watts; }), " W");
  add(device_numbers(devices, [](const auto& each) { return each.temperature_celsius; }), " °C");
  add(device_memory(devices), "");
  return counted(std::ssize(devices), "device") + ": " +
         (parts.empty() ? "their driver tells nothing" : joined(parts, kSeparator));
}

void add_table(const std::vector<const NodeStatus*>& nodes, std::vector<StatusLine>& lines) {
  TableRows rows = {kColumns};
  for (const auto* node : nodes) rows.push_back(cells_of(*node));
  const auto table = split(text_table(rows), '\n');
  lines.push_back({table.front(), Tone::kQuiet});
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool has_lost =
        !nodes[i]->has_ended && nodes[i]->age_s && std::ssize(nodes[i]->tasks) < nodes[i]->local_world;
    lines.push_back({table[i + 1], nodes[i]->is_silent || has_lost ? Tone::kAlarm : Tone::kPlain});
    if (!nodes[i]->devices.empty()) lines.push_back({"  " + devices_text(nodes[i]->devices), Tone::kPlain});
  }
}

/// A number by which nodes are compared. Absent if a node does not report it.
struct Quantity {
  std::string_view name;
  int digits;
  std::optional<double> (*of)(const NodeStatus&);
};

template <typename Number>
std::optional<double> mean_of_devices(const NodeStatus& node, Number number) {
  double sum = 0;
  int count = 0;
  for (const auto& each : node.devices) {
    if (!number(each)) continue;
    sum += static_cast<double>(*number(each));
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / count);
}

constexpr double kGiB = 1 << 30;
constexpr std::array<Quantity, 6> kQuantities{{
    {"cores", 1, [](const NodeStatus& node) { return node.cores(); }},
    {"GiB of tasks", 1,
     [](const NodeStatus& node) {
       return std::optional<double>(static_cast<double>(node.tasks_memory_bytes()) / kGiB);
     }},
    {"% busy", 0,
     [](const NodeStatus& node) { return mean_of_devices(node, [](const auto& each) { return each.busy_percent; }); }},
    {"W a device", 0,
     [](const NodeStatus& node) { return mean_of_devices(node, [](const auto& each) { return each.power_watts; }); }},
    {"°C", 0,
     [](const NodeStatus& node) {
       return mean_of_devices(node, [](const auto& each) { return each.temperature_celsius; });
     }},
    {"GiB a device", 1,
     [](const NodeStatus& node) {
       const auto bytes = mean_of_devices(node, [](const auto& each) { return each.memory_used_bytes; });
       return bytes ? std::optional(*bytes / kGiB) : std::nullopt;
     }},
}};

std::vector<double> values_of(const std::vector<NodeStatus>& nodes, const Quantity& quantity) {
  std::vector<double> values;
  for (const auto& node : nodes) {
    if (const auto value = quantity.of(node)) values.push_back(*value);
  }
  return values;
}

/// Returns the median of `values`, which must not be empty.
void add_summary(const std::vector<NodeStatus>& nodes, std::vector<StatusLine>& lines) {
  TableRows rows = {{"of " + counted(std::ssize(nodes), "node"), "least", "mean", "most"}};
  for (const auto& quantity : kQuantities) {
    const auto values = values_of(nodes, quantity);
    if (values.empty()) continue;
    const auto [least, most] = std::ranges::minmax(values);
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    rows.push_back({std::string(quantity.name), fixed(least, quantity.digits), fixed(mean, quantity.digits),
                    fixed(most, quantity.digits)});
  }
  const auto table = split(trimmed(text_table(rows)), '\n');
  for (std::size_t i = 0; i < table.size(); ++i) lines.push_back({table[i], i == 0 ? Tone::kQuiet : Tone::kPlain});
  lines.push_back({});
}

void add_nodes(const RunStatus& status, std::size_t most, std::vector<StatusLine>& lines) {
  const auto& nodes = status.node_list;
  if (nodes.empty()) return;
  lines.push_back({});
  if (nodes.size() > most) add_summary(nodes, lines);
  add_table(map_each(most_different(nodes, most), [&](std::size_t i) { return &nodes[i]; }), lines);
  if (nodes.size() > most) {
    lines.push_back(
        {"and " + counted(std::ssize(nodes) - static_cast<std::int64_t>(most), "node") + " that differ less",
         Tone::kQuiet});
  }
}

void add_findings(const RunStatus& status, std::vector<StatusLine>& lines) {
  if (!status.note.empty()) {
    lines.push_back({});
    lines.push_back({status.note, Tone::kQuiet});
  }
  if (!status.findings.empty() || status.odd_rank) lines.push_back({});
  for (const auto& each : status.findings) {
    std::string text = each.node + ": " + (each.code.empty() ? "warning" : each.code) + ": ";
    bool is_first = true;
    for (const auto& line : split(trimmed(each.text), '\n')) {
      lines.push_back({(std::exchange(is_first, false) ? text : "  ") + std::string(trimmed(line)), Tone::kAlarm});
    }
  }
  if (const auto& odd = status.odd_rank) {
    lines.push_back({"rank " + std::to_string(odd->rank) + " on " + odd->node + " " + odd->how +
                         ": most likely the others wait for it",
                     Tone::kAlarm});
  }
}

std::string_view colour_of(Tone tone) {
  switch (tone) {
    case Tone::kHead:
      return "\x1b[1m";
    case Tone::kQuiet:
      return "\x1b[2m";
    case Tone::kAlarm:
      return "\x1b[33m";
    case Tone::kPlain:
      break;
  }
  return {};
}

/// Returns the first `columns` characters of a UTF-8 text. If more follow, the last one is replaced by a mark.
std::string cut(const std::string& text, int columns) {
  if (columns <= 0 || width_of(text) <= static_cast<std::size_t>(columns)) return text;
  std::size_t bytes = 0;
  for (int width = 0; bytes < text.size(); ++bytes) {
    const bool begins = (static_cast<unsigned char>(text[bytes]) & 0xC0) != 0x80;
    if (begins && ++width == columns) break;
  }
  return text.substr(0, bytes) + "…";
}

}  // namespace

std::vector<std::size_t> most_different(const std::vector<NodeStatus>& nodes, std::size_t most) {
  std::vector<double> scores(nodes.size(), 0);
  constexpr double kAlways = 1e9;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& node = nodes[i];
    if (node.is_silent) scores[i] = 2 * kAlways;
    if (!node.has_ended && std::ssize(node.tasks) < node.local_world) scores[i] += kAlways;
  }
  for (const auto& quantity : kQuantities) {
    const auto values = values_of(nodes, quantity);
    if (values.empty()) continue;
    const double middle = median_of(values);
    const double spread = median_of(map_each(values, [&](double value) { return std::abs(value - middle); }));
    // If most nodes are equal, the median deviation is 0. A node then still counts as equal if it differs by less than
    // a twentieth.
    const double unit = std::max({spread, std::abs(middle) / 20, 1e-3});
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (const auto value = quantity.of(nodes[i])) scores[i] = std::max(scores[i], std::abs(*value - middle) / unit);
    }
  }
  std::vector<std::size_t> order(nodes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return scores[i]; });
  order.resize(std::min(order.size(), most));
  std::ranges::sort(order);
  return order;
}

std::vector<StatusLine> view_of(const RunStatus& status, std::size_t most_nodes) {
  std::vector<StatusLine> lines = {{head_of(status), Tone::kHead}};
  if (status.training) lines.push_back({training_text(*status.training), Tone::kPlain});
  add_nodes(status, most_nodes, lines);
  add_findings(status, lines);
  return lines;
}

std::string text_of(const std::vector<StatusLine>& lines, const ViewRoom& room) {
  const auto rows = room.rows > 0 ? static_cast<std::size_t>(room.rows) : lines.size();
  const bool fits = lines.size() <= rows;
  std::string text;
  for (std::size_t i = 0; i < (fits ? lines.size() : rows - 1); ++i) {
    const auto colour = room.colour && !lines[i].text.empty() ? colour_of(lines[i].tone) : std::string_view();
    text.append(colour).append(cut(lines[i].text, room.columns)).append(colour.empty() ? "" : "\x1b[0m") += '\n';
  }
  if (!fits)
    text +=
        cut("… and " + counted(static_cast<std::int64_t>(lines.size() - rows + 1), "more line"), room.columns) + "\n";
  return text;
}

}  // namespace lockstep
