// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/slurm_values.h"

#include <cctype>
#include <limits>
#include <vector>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMostDays = 36500;
constexpr std::int64_t kMostMib = std::int64_t{1} << 40;

std::optional<std::int64_t> number(std::string_view text) {
  const auto value = parsed_int<std::int64_t>(text);
  return value && *value >= 0 && *value <= kMostDays * 86400 ? value : std::nullopt;
}

std::optional<int> positive(const SlurmOptions& options, std::string_view name) {
  const auto* option = options.find(name);
  if (option == nullptr) return std::nullopt;
  const auto value = parsed_int<int>(option->value);
  return value && *value > 0 ? value : std::nullopt;
}

/// Returns the devices of --gpus and the like, in forms such as "4", "a100:4" and "a100:2,v100:1".
std::optional<int> device_count(const SlurmOptions& options, std::string_view name) {
  const auto* option = options.find(name);
  if (option == nullptr) return std::nullopt;
  std::int64_t sum = 0;
  for (const auto& part : split(option->value, ',')) {
    const auto colon = part.rfind(':');
    const auto count = parsed_int<int>(colon == std::string::npos ? part : part.substr(colon + 1));
    if (count && *count < 0) return std::nullopt;
    if (!count && colon != std::string::npos) return std::nullopt;
    if (!count && part.empty()) return std::nullopt;
    sum += count.value_or(1);
  }
  if (sum > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(sum);
}

std::optional<int> gres_devices(const SlurmOptions& options) {
  const auto* option = options.find("gres");
  if (option == nullptr) return std::nullopt;
  std::optional<int> count;
  for (const auto& part : split(option->value, ',')) {
    const auto gres = slurm_gres(part);
    if (gres && gres->resource == "gpu" && gres->count < 100000) count = count.value_or(0) + gres->count;
  }
  return count;
}

void read_nodes(const SlurmOptions& options, SlurmShape& shape) {
  const auto text = options.value("nodes");
  const auto dash = text.find('-');
  const auto low = parsed_int<int>(text.substr(0, dash));
  if (!low || *low < 1) return;
  shape.nodes = low;
  shape.max_nodes = low;
  if (dash == std::string::npos) return;
  // A range such as "1-15:4" goes in steps of four.
  const auto high = parsed_int<int>(text.substr(dash + 1, text.find(':', dash) - dash - 1));
  if (high && *high >= *low) shape.max_nodes = high;
}

}  // namespace

std::optional<std::chrono::seconds> slurm_time(std::string_view text) {
  std::int64_t days = 0;
  const auto dash = text.find('-');
  const bool has_days = dash != std::string_view::npos;
  if (has_days) {
    const auto read = number(text.substr(0, dash));
    if (!read || *read > kMostDays) return std::nullopt;
    days = *read;
    text.remove_prefix(dash + 1);
  }
  std::vector<std::int64_t> parts;
  for (const auto& part : split(text, ':')) {
    const auto read = number(part);
    if (!read) return std::nullopt;
    parts.push_back(*read);
  }
  if (parts.size() > 3) return std::nullopt;
  parts.resize(3, -1);
  const auto or_zero = [&](std::size_t i) { return parts[i] < 0 ? 0 : parts[i]; };
  std::int64_t seconds = 0;
  if (has_days || parts[2] >= 0) {
    seconds = parts[0] * 3600 + or_zero(1) * 60 + or_zero(2);
  } else {
    seconds = parts[0] * 60 + or_zero(1);
  }
  return std::chrono::seconds(days * 86400 + seconds);
}

std::optional<std::int64_t> slurm_memory_mib(std::string_view text) {
  std::size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0) ++digits;
  const auto amount = parsed_int<std::int64_t>(text.substr(0, digits));
  if (!amount || *amount > kMostMib) return std::nullopt;
  const auto unit = text.substr(digits);
  if (unit.size() > 2 || (unit.size() == 2 && unit[1] != 'B' && unit[1] != 'b')) return std::nullopt;
  switch (unit.empty() ? 'M' : std::toupper(static_cast<unsigned char>(unit[0]))) {
    case 'K':
      return (*amount + 1023) / 1024;
    case 'M':
      return *amount;
    case 'G':
      return *amount * 1024;
    case 'T':
      return *amount * 1024 * 1024;
    default:
      return std::nullopt;
  }
}

std::optional<SlurmDevices> slurm_gres(std::string_view text) {
  if (text.starts_with("gres/") || text.starts_with("gres:")) text.remove_prefix(5);
  const auto parts = split(text, ':');
  if (parts.front().empty() || parts.size() > 3) return std::nullopt;
  SlurmDevices devices{.resource = parts.front()};
  const auto count = parsed_int<int>(parts.back());
  if (parts.size() > 1 && count) {
    if (*count < 0) return std::nullopt;
    devices.count = *count;
  }
  if (parts.size() == 3 && !count) return std::nullopt;
  if (parts.size() == 3 || (parts.size() == 2 && !count)) devices.type = parts[1];
  return devices;
}

SlurmShape slurm_shape(const SlurmOptions& options) {
  SlurmShape shape;
  read_nodes(options, shape);
  shape.tasks = positive(options, "ntasks");
  shape.tasks_per_node = positive(options, "ntasks-per-node");
  shape.cpus_per_task = positive(options, "cpus-per-task");
  shape.devices_per_node = device_count(options, "gpus-per-node");
  if (!shape.devices_per_node) shape.devices_per_node = gres_devices(options);
  shape.devices_per_task = device_count(options, "gpus-per-task");
  shape.devices = device_count(options, "gpus");
  shape.time = slurm_time(options.value("time"));
  if (options.has("mem")) shape.memory_mib = slurm_memory_mib(options.value("mem"));
  return shape;
}

std::optional<int> SlurmShape::job_nodes() const {
  if (nodes) return nodes == max_nodes ? nodes : std::nullopt;
  if (!tasks || *tasks == 1) return 1;
  if (!tasks_per_node) return std::nullopt;
  return static_cast<int>((std::int64_t{*tasks} + *tasks_per_node - 1) / *tasks_per_node);
}

std::optional<int> SlurmShape::job_tasks() const {
  if (tasks) return tasks;
  const auto all = job_nodes();
  if (!all) return std::nullopt;
  const std::int64_t product = std::int64_t{*all} * tasks_per_node.value_or(1);
  return product <= std::numeric_limits<int>::max() ? std::optional(static_cast<int>(product)) : std::nullopt;
}

std::optional<int> SlurmShape::node_tasks() const {
  const auto all = job_nodes();
  const auto total = job_tasks();
  if (!all || !total || *total % *all != 0) return tasks ? std::nullopt : tasks_per_node;
  return *total / *all;
}

std::optional<int> SlurmShape::node_devices() const {
  if (devices_per_node) return devices_per_node;
  const auto all = job_nodes();
  if (devices_per_task && node_tasks()) {
    const std::int64_t product = std::int64_t{*devices_per_task} * *node_tasks();
    return product <= std::numeric_limits<int>::max() ? std::optional(static_cast<int>(product)) : std::nullopt;
  }
  if (devices && all && *devices % *all == 0) return *devices / *all;
  return devices || devices_per_task ? std::nullopt : std::optional(0);
}

}  // namespace lockstep
