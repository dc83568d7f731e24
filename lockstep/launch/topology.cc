// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/topology.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <map>

#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

CpuSet cpus_in(const fs::path& file) {
  try {
    return cpus_of_list(text_of_file(file));
  } catch (const Error&) {
    return {};
  }
}

/// Returns the numbers of a folder's entries whose names are `prefix` and a number, sorted.
std::vector<int> numbers_in(const fs::path& folder, std::string_view prefix) {
  std::vector<int> numbers;
  for (const auto& name : names_in(folder)) {
    if (!name.starts_with(prefix)) continue;
    if (const auto number = parsed_int<int>(std::string_view(name).substr(prefix.size()))) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// Parses lines of the form "key value", as in the property files of the KFD driver.
std::map<std::string, std::uint64_t> properties_in(const std::string& text) {
  std::map<std::string, std::uint64_t> found;
  for (const auto& line : split(text, '\n')) {
    const auto space = line.find(' ');
    if (space == std::string::npos) continue;
    if (const auto value = parsed_int<std::uint64_t>(trimmed(std::string_view(line).substr(space)))) {
      found[line.substr(0, space)] = *value;
    }
  }
  return found;
}

/// Returns the entries of a variable that lists visible devices, up to the first invalid one.
std::vector<std::string> entries_of(const Environment& env, const std::string& name) {
  std::vector<std::string> entries;
  for (const auto& entry : split(env.get(name).value_or(""), ',')) {
    const std::string text(trimmed(entry));
    if (text.empty() || text.starts_with('-') || text == "NoDevFiles") break;
    entries.push_back(text);
  }
  return entries;
}

std::vector<Gpu> shown_by(const std::vector<Gpu>& gpus, const std::vector<std::string>& entries) {
  std::vector<Gpu> shown;
  for (const auto& entry : entries) {
    if (const auto index = parsed_int<std::size_t>(entry)) {
      if (*index >= gpus.size()) return {};
      shown.push_back(gpus[*index]);
      continue;
    }
    const auto named = [&](const Gpu& gpu) { return !gpu.uuid.empty() && gpu.uuid.starts_with(entry); };
    const auto it = std::find_if(gpus.begin(), gpus.end(), named);
    if (it == gpus.end()) return {};
    shown.push_back(*it);
  }
  return shown;
}

std::vector<Gpu> shown_amd(std::vector<Gpu> gpus, const Environment& env) {
  const auto by_rocr = entries_of(env, "ROCR_VISIBLE_DEVICES");
  if (!by_rocr.empty()) gpus = shown_by(gpus, by_rocr);
  // HIP's indices count within ROCR's list. Slurm also sets CUDA's variable to the same numbers, which must then not be
  // applied a second time.
  auto by_hip = entries_of(env, "HIP_VISIBLE_DEVICES");
  if (by_hip.empty() && by_rocr.empty()) by_hip = entries_of(env, "CUDA_VISIBLE_DEVICES");
  return by_hip.empty() ? gpus : shown_by(gpus, by_hip);
}

bool are_numbers(const std::vector<std::string>& entries) {
  return std::ranges::all_of(entries, [](const auto& entry) { return parsed_int<int>(entry).has_value(); });
}

std::vector<Gpu> shown_nvidia(const std::vector<Gpu>& gpus, const Environment& env) {
  const auto by_cuda = entries_of(env, "CUDA_VISIBLE_DEVICES");
  const auto by_slurm = entries_of(env, "SLURM_STEP_GPUS");
  if (!by_slurm.empty() && by_slurm.size() == by_cuda.size()) {
    // The program reads CUDA's list, so the order is that of CUDA's list. If that list counts within a cgroup, Slurm's
    // list has the numbers on the node.
    if (std::ranges::is_permutation(by_cuda, by_slurm)) return shown_by(gpus, by_cuda);
    return are_numbers(by_cuda) ? shown_by(shown_by(gpus, by_slurm), by_cuda) : shown_by(gpus, by_cuda);
  }
  // CUDA's list has fewer devices than the step. In a cgroup its numbers would count from 0 again, so they are
  // ambiguous.
  if (!by_slurm.empty() && !by_cuda.empty()) return {};
  return by_cuda.empty() ? gpus : shown_by(gpus, by_cuda);
}

/// True if a list is set that has no device in it, such as "" or "NoDevFiles".
bool hides_all(const Environment& env, std::initializer_list<const char*> lists) {
  return std::ranges::any_of(
      lists, [&](const char* name) { return env.all().contains(name) && entries_of(env, name).empty(); });
}

/// Counts the xGMI links that KFD lists for a GPU, a folder each.
/// Source: the kernel's drivers/gpu/drm/amd/amdkfd/kfd_crat.h: CRAT_IOLINK_TYPE_XGMI is 11. The driver lists a link to
/// every GPU of the same hive, and a GPU whose links did not train is in none.
int xgmi_links_in(const fs::path& links) {
  constexpr std::uint64_t kXgmi = 11;
  int count = 0;
  for (const auto& link : names_in(links)) {
    const auto properties = properties_in(text_or_nothing(links / link / "properties"));
    const auto type = properties.find("type");
    if (type != properties.end() && type->second == kXgmi) ++count;
  }
  return count;
}

}  // namespace

std::vector<Gpu> Topology::gpus() const {
  auto found = nvidia_gpus();
  return found.empty() ? amd_gpus() : found;
}

std::vector<Gpu> Topology::nvidia_gpus() const {
  const fs::path folder = root_ / "proc/driver/nvidia/gpus";
  std::vector<Gpu> found;
  for (const auto& pci : names_in(folder)) {
    Gpu gpu{.maker = GpuMaker::kNvidia, .pci = pci};
    for (const auto& line : split(text_or_nothing(folder / pci / "information"), '\n')) {
      if (line.starts_with("GPU UUID:")) gpu.uuid = trimmed(std::string_view(line).substr(9));
    }
    found.push_back(std::move(gpu));
  }
  return found;
}

std::vector<Gpu> Topology::amd_gpus() const {
  const fs::path folder = root_ / "sys/class/kfd/kfd/topology/nodes";
  std::vector<Gpu> found;
  for (const int node : numbers_in(folder, "")) {
    // KFD lists CPUs as nodes too, and these are skipped. A GPU that the cgroup hides cannot be read.
    const auto properties = properties_in(text_or_nothing(folder / std::to_string(node) / "properties"));
    const auto value = [&](const char* key) {
      const auto it = properties.find(key);
      return it == properties.end() ? std::uint64_t{0} : it->second;
    };
    if (value("simd_count") == 0) continue;
    const auto location = static_cast<unsigned>(value("location_id"));
    std::array<char, 32> pci{};
    std::snprintf(pci.data(), pci.size(), "%04x:%02x:%02x.%x", static_cast<unsigned>(value("domain")),
                  (location >> 8U) & 0xffU, (location >> 3U) & 0x1fU, location & 7U);
    const auto id = value("unique_id");
    found.push_back({.maker = GpuMaker::kAmd,
                     .pci = pci.data(),
                     .uuid = id == 0 ? "" : "GPU-" + hex64(id),
                     .xgmi_links = xgmi_links_in(folder / std::to_string(node) / "io_links")});
  }
  return found;
}

CpuSet Topology::cpus_near(const std::string& pci) const {
  return cpus_in(root_ / "sys/bus/pci/devices" / pci / "local_cpulist");
}

std::vector<int> Topology::numa_of(const CpuSet& cpus) const {
  const fs::path folder = root_ / "sys/devices/system/node";
  std::vector<int> domains;
  for (const int domain : numbers_in(folder, "node")) {
    if (!common(cpus, cpus_in(folder / ("node" + std::to_string(domain)) / "cpulist")).empty()) {
      domains.push_back(domain);
    }
  }
  return domains;
}

int Topology::cores_of(const CpuSet& cpus) const {
  const int count = static_cast<int>(cpus.size());
  const fs::path system = root_ / "sys/devices/system/cpu";
  if (cpus.empty() || trimmed(text_or_nothing(system / "smt/active")) == "0") return count;
  const auto threads = common(cpus, threads_of_core(*cpus.begin())).size();
  return threads == 0 ? count : std::max(1, count / static_cast<int>(threads));
}

CpuSet Topology::threads_of_core(int cpu) const {
  return cpus_in(root_ / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology/thread_siblings_list");
}

int Topology::sibling_distance(int cpu) const {
  const CpuSet threads = threads_of_core(cpu);
  return threads.size() < 2 ? 0 : *std::next(threads.begin()) - *threads.begin();
}

std::optional<Gpu> gpu_of_device(const std::vector<Gpu>& gpus, const Environment& env, int index) {
  if (gpus.empty() || index < 0) return std::nullopt;
  const auto shown = gpus.front().maker == GpuMaker::kAmd ? shown_amd(gpus, env) : shown_nvidia(gpus, env);
  if (static_cast<std::size_t>(index) >= shown.size()) return std::nullopt;
  return shown[static_cast<std::size_t>(index)];
}

std::optional<std::vector<Gpu>> allocated_gpus(const std::vector<Gpu>& gpus, const Environment& env) {
  const bool is_amd = !gpus.empty() && gpus.front().maker == GpuMaker::kAmd;
  const auto by_slurm = entries_of(env, "SLURM_STEP_GPUS");
  std::vector<Gpu> found;
  if (is_amd) {
    if (hides_all(env, {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"})) return found;
    found = shown_amd(gpus, env);
  } else if (!by_slurm.empty() && are_numbers(entries_of(env, "CUDA_VISIBLE_DEVICES"))) {
    // Slurm's list has the numbers on the node, of all tasks of the step. If slices are named, it counts slices.
    found = shown_by(gpus, by_slurm);
  } else {
    if (hides_all(env, {"CUDA_VISIBLE_DEVICES"})) return found;
    found = shown_nvidia(gpus, env);
  }
  if (found.empty()) return std::nullopt;
  return found;
}

}  // namespace lockstep
