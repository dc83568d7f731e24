// SPDX-License-Identifier: Apache-2.0
#include "lockstep/telemetry/process_tree.h"

#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// The number of processes is limited, so that a fork bomb in a task does not use up this process's memory.
constexpr int kMostProcesses = 4096;

/// The fields of /proc/PID/stat, from the third one, the state, on. The second is the name in brackets, which may have
/// any character.
std::vector<std::string> stat_fields(const fs::path& process) {
  const std::string text = text_or_nothing(process / "stat");
  const auto bracket = text.rfind(')');
  if (bracket == std::string::npos) return {};
  return split(trimmed(std::string_view(text).substr(bracket + 1)), ' ');
}

/// Returns field `number` of stat, counted from 1 as in proc(5).
std::uint64_t field(const std::vector<std::string>& fields, std::size_t number) {
  return number - 3 < fields.size() ? parsed_int<std::uint64_t>(fields[number - 3]).value_or(0) : 0;
}

/// Returns the number behind "name:" in a file with such lines.
std::uint64_t value_of(const std::string& text, std::string_view name) {
  for (const auto& line : split(text, '\n')) {
    if (!line.starts_with(name)) continue;
    const auto words = split(trimmed(std::string_view(line).substr(name.size())), ' ');
    return parsed_int<std::uint64_t>(words.front()).value_or(0);
  }
  return 0;
}

std::vector<pid_t> children_of(const fs::path& process) {
  std::vector<pid_t> children;
  std::error_code gone;
  // Each thread of a process has its own list of children in /proc, so all threads are read.
  for (fs::directory_iterator it(process / "task", gone), end; !gone && it != end; it.increment(gone)) {
    for (const auto& word : split(text_or_nothing(it->path() / "children"), ' ')) {
      if (const auto pid = parsed_int<pid_t>(word)) children.push_back(*pid);
    }
  }
  return children;
}

bool add(TreeSample& sum, const fs::path& process) {
  const auto fields = stat_fields(process);
  if (fields.empty()) return false;
  static const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  // The CPU time is utime and stime of the process, and of its children that have ended and were waited for.
  const auto cpu = field(fields, 14) + field(fields, 15) + field(fields, 16) + field(fields, 17);
  sum.cpu_seconds += static_cast<double>(cpu) / ticks;
  sum.threads += static_cast<int>(field(fields, 20));
  sum.memory_bytes += field(fields, 24) * page;
  const std::string io = text_or_nothing(process / "io");
  sum.read_bytes += value_of(io, "read_bytes:");
  sum.written_bytes += value_of(io, "write_bytes:");
  sum.passed_bytes += value_of(io, "wchar:");
  if (sum.processes == 0 && !fields.front().empty()) sum.state = fields.front().front();
  ++sum.processes;
  return true;
}

/// Calls `visit` with `pid` and each of its descendants, until there are `kMostProcesses`. A process for which it
/// returns false is left out, with its descendants.
template <typename Visit>
void walk_tree(pid_t pid, const fs::path& root, Visit&& visit) {
  std::vector<pid_t> waiting = {pid};
  for (int found = 0; !waiting.empty() && found < kMostProcesses;) {
    const auto each = waiting.back();
    waiting.pop_back();
    const auto process = root / "proc" / std::to_string(each);
    if (!visit(each, process)) continue;
    ++found;
    const auto children = children_of(process);
    waiting.insert(waiting.end(), children.begin(), children.end());
  }
}

}  // namespace

std::optional<TreeSample> sample_of_tree(pid_t pid, const fs::path& root) {
  TreeSample sum;
  walk_tree(pid, root, [&](pid_t, const fs::path& process) { return add(sum, process); });
  if (sum.processes == 0) return std::nullopt;
  return sum;
}

std::vector<pid_t> processes_of_tree(pid_t pid, const fs::path& root) {
  std::vector<pid_t> all;
  walk_tree(pid, root, [&](pid_t each, const fs::path&) {
    if (!start_of_process(each, root)) return false;
    all.push_back(each);
    return true;
  });
  return all;
}

std::optional<std::uint64_t> start_of_process(pid_t pid, const fs::path& root) {
  const auto fields = stat_fields(root / "proc" / std::to_string(pid));
  if (fields.empty() || fields.front() == "Z" || fields.front() == "X") return std::nullopt;
  return field(fields, 22);
}

Environment environment_of_process(pid_t pid, const fs::path& root) {
  Environment::Map values;
  for (const auto& entry : split(text_or_nothing(root / "proc" / std::to_string(pid) / "environ"), '\0')) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos) values.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return Environment(std::move(values));
}

std::optional<pid_t> parent_of_process(pid_t pid, const fs::path& root) {
  const auto fields = stat_fields(root / "proc" / std::to_string(pid));
  if (fields.empty()) return std::nullopt;
  return static_cast<pid_t>(field(fields, 4));
}

MemorySample sample_of_memory(const fs::path& root) {
  const std::string text = text_or_nothing(root / "proc/meminfo");
  return {.total_bytes = value_of(text, "MemTotal:") * 1024, .available_bytes = value_of(text, "MemAvailable:") * 1024};
}

}  // namespace lockstep
