// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/task_environment.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/task_devices.h"

namespace lockstep {
namespace {

using Names = std::initializer_list<const char*>;

constexpr Names kDeviceLists = {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
                                "GPU_DEVICE_ORDINAL"};

class Builder {
 public:
  Builder(const Placement& at, const Environment& env) : at_(at), all_(env.all()) {}

  /// Sets a variable to the value that follows from the placement, and replaces any other value.
  void replace(const std::string& name, const std::string& value) {
    const auto before = all_.find(name);
    if (before != all_.end() && !before->second.empty() && before->second != value) {
      note(name + "='" + before->second + "' was set; " + at_.source + " says '" + value + "', which it is now");
    }
    all_[name] = value;
  }

  /// Sets a variable to Lockstep's value, if the user has not set it.
  bool fill(const std::string& name, const std::string& value) {
    return all_.try_emplace(name, value).second || all_[name] == value;
  }

  /// Sets a variable to the site's value, if the user has not set it. If the user has another value, it adds a note.
  void fill_from_site(const std::string& name, const std::string& value, const std::string& cluster) {
    if (!fill(name, value)) note(name + "='" + all_[name] + "' is kept; " + cluster + " would have '" + value + "'");
  }

  void remove(const std::string& name) { all_.erase(name); }
  void set(const std::string& name, const std::string& value) { all_[name] = value; }
  void note(std::string text) { notes_.push_back(std::move(text)); }
  bool has(const std::string& name) const { return all_.contains(name); }
  std::vector<std::string> list(const std::string& name) const {
    const auto it = all_.find(name);
    return it == all_.end() || it->second.empty() ? std::vector<std::string>{} : split(it->second, ',');
  }
  TaskEnvironment done() && { return {Environment(std::move(all_)), std::move(notes_)}; }

 private:
  const Placement& at_;
  Environment::Map all_;
  std::vector<std::string> notes_;
};

std::string filled_in(const std::string& name, const std::string& value, const Placement& at, const Environment& env) {
  const std::array<std::pair<std::string, std::string>, 5> places = {{{"user", env.get("USER").value_or("")},
                                                                      {"job", at.job},
                                                                      {"rank", std::to_string(at.rank)},
                                                                      {"local_rank", std::to_string(at.local_rank)},
                                                                      {"node_rank", std::to_string(at.node_rank)}}};
  std::string text = value;
  for (auto open = text.find('{'); open != std::string::npos; open = text.find('{', open)) {
    const auto close = text.find('}', open);
    const std::string place = text.substr(open + 1, close == std::string::npos ? close : close - open - 1);
    const auto it = std::find_if(places.begin(), places.end(), [&](const auto& each) { return each.first == place; });
    if (close == std::string::npos || it == places.end()) {
      throw Error(ErrorKind::kRecipe, name + "='" + value + "': there is nothing to fill in for '{" + place + "}'",
                  "the profile may use {user} {job} {rank} {local_rank} {node_rank}");
    }
    text.replace(open, close - open + 1, it->second);
    open += it->second.size();
  }
  return text;
}

void place_rank(Builder& builder, const Placement& at, const Endpoint& master) {
  builder.replace("RANK", std::to_string(at.rank));
  builder.replace("WORLD_SIZE", std::to_string(at.world));
  builder.replace("LOCAL_RANK", std::to_string(at.local_rank));
  builder.replace("LOCAL_WORLD_SIZE", std::to_string(at.local_world));
  builder.replace("NODE_RANK", std::to_string(at.node_rank));
  builder.replace("MASTER_ADDR", master.address);
  builder.replace("MASTER_PORT", std::to_string(master.port));
}

/// torchrun reads options that are missing on its command line from these variables. Without them the torchrun of each
/// task would train a separate model. Accelerate runs torchrun's code. Source: torch/distributed/argparse_util.py,
/// `env`.
void say_nodes_to_torchrun(Builder& builder, const Placement& at, const TaskFacts& facts) {
  std::size_t devices = 0;
  for (const std::string name : kDeviceLists) devices = std::max(devices, builder.list(name).size());
  const bool may_start_ranks = facts.starts_ranks || (at.local_world == 1 && devices > 1);
  if (at.world == 1 || !may_start_ranks) return;
  builder.fill("PET_NNODES", std::to_string(at.world));
  builder.fill("PET_NODE_RANK", std::to_string(at.rank));
  builder.fill("PET_MASTER_ADDR", facts.master.address);
  builder.fill("PET_MASTER_PORT", std::to_string(facts.master.port));
}

/// Slurm exports the tasks per node only if it was asked for tasks in these words. Lightning refuses a job of several
/// tasks if the variable is missing.
void say_tasks_per_node(Builder& builder, const Placement& at, const Environment& env) {
  const auto spread = env.get("SLURM_STEP_TASKS_PER_NODE");
  const bool is_even = spread && spread->find(',') == std::string::npos && at.local_world * at.nodes == at.world;
  if (at.source == "slurm" && is_even) builder.fill("SLURM_NTASKS_PER_NODE", std::to_string(at.local_world));
}

/// Cuts each list that shows several tasks the same devices down to this task's own. If ROCm's list is cut, lists that
/// count within it are no longer valid, and are removed.
void show_own(Builder& builder, const Placement& at, const Environment& env, const TaskFacts& facts) {
  bool is_told = false;
  for (const std::string name : kDeviceLists) {
    const auto devices = builder.list(name);
    is_told = is_told || builder.has(name);
    std::vector<std::string> own;
    for (const int index : device_indices(at, env, static_cast<int>(devices.size()))) {
      own.push_back(devices[static_cast<std::size_t>(index)]);
    }
    if (own.empty() || own.size() == devices.size()) continue;
    builder.set(name, joined(own, ","));
    if (name == "ROCR_VISIBLE_DEVICES" && facts.gpu_maker == GpuMaker::kAmd) {
      for (const char* within : {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}) {
        builder.remove(within);
      }
    }
  }
  if (is_told || !facts.gpu_maker || at.local_world == 1) return;
  builder.set(facts.gpu_maker == GpuMaker::kAmd ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES",
              std::to_string(at.local_rank));
}

/// Slurm sets CUDA's and ROCm's lists to the same numbers. HIP also reads CUDA's list, and counts it within ROCm's. A
/// task with number 3 in both lists would see no device.
void untangle_amd(Builder& builder, const TaskFacts& facts) {
  const auto rocr = builder.list("ROCR_VISIBLE_DEVICES");
  if (facts.gpu_maker != GpuMaker::kAmd || rocr.empty()) return;
  for (const char* within : {"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}) {
    if (builder.list(within) == rocr) builder.remove(within);
  }
}

void show_devices(Builder& builder, const Placement& at, const Environment& env, const TaskSettings& settings,
                  const TaskFacts& facts) {
  if (settings.devices == DeviceVisibility::kOne) show_own(builder, at, env, facts);
  if (settings.devices == DeviceVisibility::kAll && at.local_world > 1 && at.device) {
    for (const std::string name : kDeviceLists) {
      if (builder.list(name).size() != 1) continue;
      builder.note("each task sees one device (" + name + "='" + builder.list(name).front() + "'), but " +
                   settings.cluster +
                   " shows all: ask with --gpus-per-node, not --gpus-per-task, or a script that "
                   "takes cuda:LOCAL_RANK finds none, and ranks cannot copy from device to device");
      break;
    }
  }
  untangle_amd(builder, facts);
}

void add_site(Builder& builder, const Placement& at, const Environment& env, const TaskSettings& settings) {
  const auto& variables = settings.variables;
  Environment::Map wanted = at.nodes == 1 ? variables.on_one_node : variables.on_several_nodes;
  wanted.insert(variables.always.begin(), variables.always.end());
  for (const auto& [name, value] : wanted) {
    builder.fill_from_site(name, filled_in(name, value, at, env), settings.cluster);
  }
}

/// A separate folder per task, since MIOpen keeps SQLite files there, which several writers slow down.
std::filesystem::path own_caches(const Placement& at, const TaskFacts& facts) {
  return facts.caches / ("rank-" + std::to_string(at.local_rank));
}

void add_caches(Builder& builder, const Placement& at, const TaskSettings& settings, const TaskFacts& facts) {
  if (facts.caches.empty()) return;
  // These caches only ever get new files. So the tasks of a node share one folder, and each uses what another has
  // compiled.
  builder.fill("TRITON_CACHE_DIR", facts.caches / "triton");
  builder.fill("TORCHINDUCTOR_CACHE_DIR", facts.caches / "inductor");
  for (const auto& name : settings.caches.variables) builder.fill(name, own_caches(at, facts));
  if (facts.gpu_maker != GpuMaker::kAmd) return;
  builder.fill("MIOPEN_USER_DB_PATH", own_caches(at, facts));
  builder.fill("MIOPEN_CUSTOM_CACHE_DIR", own_caches(at, facts));
}

void add_nccl_log(Builder& builder, const TaskFacts& facts) {
  if (facts.nccl_log.empty() || builder.has("NCCL_DEBUG_FILE")) return;
  builder.set("NCCL_DEBUG_FILE", facts.nccl_log);
  // With level INFO for these two subsystems, NCCL says in a few dozen lines which network it uses.
  if (builder.fill("NCCL_DEBUG", "INFO")) builder.fill("NCCL_DEBUG_SUBSYS", "INIT,NET");
}

/// True if the job has `count` devices on this node, and Slurm names none of them to its tasks. --gpu-bind=none removes
/// the lists of devices, also those that the batch script has exported.
bool names_no_devices(const Environment& env, std::size_t count) {
  const bool is_unbound = env.get("SLURMD_TRES_BIND").value_or("").find("gpu:none") != std::string::npos;
  const bool is_named = std::ranges::any_of(kDeviceLists, [&](const char* name) { return env.all().contains(name); });
  return is_unbound && !is_named && env.get("SLURM_GPUS_ON_NODE") == std::to_string(count);
}

}  // namespace

CacheFolders cache_folders(const Placement& at, const TaskFacts& facts) {
  if (facts.caches.empty()) return {};
  return {.shared = {facts.caches / "triton", facts.caches / "inductor"}, .own = own_caches(at, facts)};
}

std::filesystem::path nccl_log(const std::filesystem::path& run_dir, const std::filesystem::path& node_folder,
                               int rank) {
  const std::string digits = std::to_string(rank);
  const std::string name = "nccl-" + std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits + ".log";
  if (!run_dir.empty()) return run_dir / "logs" / name;
  return node_folder.empty() ? std::filesystem::path() : node_folder / name;
}

Environment with_device_order(const Environment& env, const TaskSettings& settings) {
  const auto& order = settings.device_order;
  if (order.empty()) return env;
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < order.size(); ++i) numbers.push_back(std::to_string(i));
  auto variables = env.all();
  for (const std::string name : kDeviceLists) {
    const auto shown = variables.find(name);
    if (shown != variables.end() && shown->second == joined(numbers, ",")) shown->second = joined(order, ",");
  }
  if (names_no_devices(env, order.size())) variables["CUDA_VISIBLE_DEVICES"] = joined(order, ",");
  return Environment(std::move(variables));
}

TaskEnvironment task_environment(const Placement& at, const Environment& env, const TaskSettings& settings,
                                 const TaskFacts& facts) {
  Builder builder(at, env);
  place_rank(builder, at, facts.master);
  say_tasks_per_node(builder, at, env);
  show_devices(builder, at, env, settings, facts);
  say_nodes_to_torchrun(builder, at, facts);
  add_site(builder, at, env, settings);
  add_caches(builder, at, settings, facts);
  add_nccl_log(builder, facts);
  if (facts.threads > 0) builder.fill("OMP_NUM_THREADS", std::to_string(facts.threads));
  // Python buffers output to a file in large blocks. Without PYTHONUNBUFFERED a log would show nothing for minutes, and
  // would lose its end if the task is killed.
  builder.fill("PYTHONUNBUFFERED", "1");
  return std::move(builder).done();
}

}  // namespace lockstep
