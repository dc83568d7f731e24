// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/cpu_backend.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "lockstep/base/system_files.h"
#include "lockstep/device/backend.h"
#include "lockstep/device/streams.h"

namespace lockstep {
namespace {

constexpr std::int64_t kKiB = 1024;

// Returns the number after `label` in a file with lines such as "MemAvailable:   123 kB".
std::int64_t kib_of(const char* file, const std::string& label) {
  std::istringstream lines(text_or_nothing(file));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(label + ":")) return std::stoll(line.substr(label.size() + 1)) * kKiB;
  }
  return 0;
}

std::int64_t left_in_control_group() {
  const auto limit = text_or_nothing("/sys/fs/cgroup/memory.max");
  const auto used = text_or_nothing("/sys/fs/cgroup/memory.current");
  if (limit.empty() || used.empty() || limit.starts_with("max")) return std::numeric_limits<std::int64_t>::max();
  return std::max<std::int64_t>(0, std::stoll(limit) - std::stoll(used));
}

class CpuBackend final : public DeviceBackend {
 public:
  c10::DeviceType type() const override { return c10::kCPU; }
  RuntimeFacts runtime() const override { return {.kind = "CPU"}; }
  std::vector<DeviceFacts> devices() const override {
    return {{.name = "CPU", .memory_bytes = kib_of("/proc/meminfo", "MemTotal")}};
  }
  void prepare(int) const override {}

  DeviceMemory memory(int) const override {
    return {.total = kib_of("/proc/meminfo", "MemTotal"),
            .free = kib_of("/proc/meminfo", "MemFree"),
            .available = std::min(kib_of("/proc/meminfo", "MemAvailable"), left_in_control_group()),
            .held = kib_of("/proc/self/status", "VmRSS"),
            .peak = kib_of("/proc/self/status", "VmHWM")};
  }

  // Writing 5 to clear_refs resets the peak of the memory to its present size. Source: proc(5).
  void forget_peak(int) const override { std::ofstream("/proc/self/clear_refs") << "5"; }

  void synchronize(int, const std::function<void()>&) const override {}
  std::function<bool()> mark(int) const override {
    return [] { return true; };
  }
  void give_back_memory(int) const override {}
  std::unique_ptr<CopyStream> copy_stream(int) const override { return nullptr; }
  std::unique_ptr<StepGraph> step_graph(int) const override { return nullptr; }
  void push_range(const char*) const override {}
  void pop_range() const override {}
  const CollectiveMaker* collectives() const override { return nullptr; }
};

}  // namespace

const DeviceBackend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

}  // namespace lockstep
