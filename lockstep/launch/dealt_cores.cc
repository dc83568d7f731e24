// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/dealt_cores.h"

#include <algorithm>
#include <cstddef>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

std::size_t nearness(const CpuSet& set, const CpuSet& near) { return common(set, near).size(); }

}  // namespace

std::vector<CpuSet> cpus_bound_by_slurm(const Environment& env) {
  const auto list = env.get("SLURM_CPU_BIND_LIST").value_or("");
  if (list.empty() || !env.get("SLURM_CPU_BIND_TYPE").value_or("").starts_with("mask_cpu")) return {};
  std::vector<CpuSet> sets;
  for (const auto& mask : split(list, ',')) sets.push_back(cpus_of_mask(mask));
  return sets;
}

std::vector<CpuSet> deal_cores(const std::vector<CpuSet>& given, const std::vector<CpuSet>& near) {
  LOCKSTEP_ASSERT(given.size() == near.size());
  std::vector<CpuSet> dealt(given.size());
  std::vector<CpuSet> rest;
  for (std::size_t task = 0; task < given.size(); ++task) {
    const bool is_best = std::ranges::all_of(
        given, [&](const CpuSet& set) { return nearness(set, near[task]) <= nearness(given[task], near[task]); });
    is_best ? dealt[task] = given[task] : rest.emplace_back(given[task]);
  }
  for (std::size_t task = 0; task < given.size(); ++task) {
    if (!dealt[task].empty()) continue;
    const auto nearest =
        std::ranges::max_element(rest, {}, [&](const CpuSet& set) { return nearness(set, near[task]); });
    dealt[task] = *nearest;
    rest.erase(nearest);
  }
  return dealt;
}

}  // namespace lockstep
