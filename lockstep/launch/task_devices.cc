// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/task_devices.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string>

#include "lockstep/base/text.h"
#include "lockstep/launch/placement/device.h"

namespace lockstep {
namespace {

using Numbers = std::vector<int>;

/// A variable that lists devices, and its entries.
struct DeviceList {
  bool is_set = false;
  bool is_numeric = true;  ///< Every entry is a number.
  Numbers numbers{};

  bool is_usable() const { return is_set && is_numeric && !numbers.empty(); }
};

DeviceList list_in(const Environment& env, const char* name) {
  const auto text = env.get(name);
  DeviceList list{.is_set = text.has_value()};
  if (!text) return list;
  for (const auto& entry : split(*text, ',')) {
    const auto number = parsed_int<int>(trimmed(entry));
    if (!number || *number < 0) list.is_numeric = false;
    list.numbers.push_back(number.value_or(-1));
  }
  return list;
}

/// Returns the first list that is set, in the order in which the runtimes apply them. HIP's indices count within ROCm's
/// list. So a HIP list that differs chooses among the devices of ROCm's list.
DeviceList visible_list(const Environment& env) {
  DeviceList list = list_in(env, "ROCR_VISIBLE_DEVICES");
  const DeviceList within = list_in(env, "HIP_VISIBLE_DEVICES");
  if (list.is_usable() && within.is_usable() && within.numbers != list.numbers) {
    Numbers chosen;
    for (const int index : within.numbers) {
      if (static_cast<std::size_t>(index) >= list.numbers.size()) return {.is_set = true, .is_numeric = false};
      chosen.push_back(list.numbers[static_cast<std::size_t>(index)]);
    }
    list.numbers = std::move(chosen);
  }
  if (list.is_set) return list;
  if (within.is_set) return within;
  list = list_in(env, "CUDA_VISIBLE_DEVICES");
  return list.is_set ? list : list_in(env, "SLURM_STEP_GPUS");
}

bool is_from_zero(Numbers numbers) {
  std::ranges::sort(numbers);
  Numbers counted(numbers.size());
  std::iota(counted.begin(), counted.end(), 0);
  return numbers == counted;
}

bool are_same(Numbers a, Numbers b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

/// Converts a list of devices, which may count within a cgroup, to the devices' numbers on the node.
Numbers numbers_on_node(const Placement& at, const Environment& env, const Numbers& shown) {
  const DeviceList step = list_in(env, "SLURM_STEP_GPUS");
  if (step.is_usable() && step.numbers.size() == shown.size()) {
    if (are_same(shown, step.numbers)) return shown;
    if (!is_from_zero(shown)) return {};
    Numbers numbers;
    for (const int index : shown) numbers.push_back(step.numbers[static_cast<std::size_t>(index)]);
    return numbers;
  }
  // In a cgroup, the only device of a task always has number 0, whatever its number on the node.
  if (shown.size() == 1) return shown.front() != 0 || at.local_rank == 0 ? shown : Numbers{};
  return !step.is_usable() || is_from_zero(step.numbers) ? shown : Numbers{};
}

}  // namespace

std::vector<int> device_indices(const Placement& at, const Environment& env, int visible) {
  if (visible <= 0) return {};
  const bool are_own = visible == 1 || at.local_world == 1 || shows_own_devices(env, at.local_rank);
  if (!are_own && visible < at.local_world) return {};
  if (!are_own && visible % at.local_world != 0) return {at.local_rank};
  const int count = are_own ? visible : visible / at.local_world;
  std::vector<int> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), are_own ? 0 : at.local_rank * count);
  return indices;
}

std::vector<int> device_numbers(const Placement& at, const Environment& env, int on_node) {
  const DeviceList list = visible_list(env);
  if (!list.is_set) return device_indices(at, env, on_node);
  if (!list.is_usable()) return {};
  const Numbers all = numbers_on_node(at, env, list.numbers);
  std::vector<int> own;
  if (all.empty()) return own;
  for (const int index : device_indices(at, env, static_cast<int>(all.size()))) {
    const int number = all[static_cast<std::size_t>(index)];
    if (number >= on_node) return {};
    own.push_back(number);
  }
  return own;
}

}  // namespace lockstep
