// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"

namespace lockstep {
namespace {

constexpr std::int64_t kKiB = 1024;

void require_cpu(const c10::Device& device) {
  if (device.is_cpu()) return;
  throw Error(ErrorKind::kEnvironment, "the memory of " + device.str() + " cannot be asked for in this build",
              "set trainer.accelerator = \"cpu\", or build with the device's library");
}

// The number after `label` in a file of lines such as "MemAvailable:   123 kB".
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

}  // namespace

std::int64_t free_memory(const c10::Device& device) {
  require_cpu(device);
  return std::min(kib_of("/proc/meminfo", "MemAvailable"), left_in_control_group());
}

std::int64_t peak_memory(const c10::Device& device) {
  require_cpu(device);
  return kib_of("/proc/self/status", "VmHWM");
}

// Source: proc(5), clear_refs: 5 resets the peak to what is held now.
void forget_peak_memory(const c10::Device& device) {
  require_cpu(device);
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace lockstep
