// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/placement/device.h"

#include <initializer_list>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/placement/placement.h"

namespace lockstep {
namespace {

struct Visible {
  int count = 0;
  std::string variable;
  std::string text;
};

/// Returns how many devices the runtime shows for a list like "0,2", "GPU-8a1c…,GPU-77f0…" or "". The runtime stops at
/// the first invalid entry. "-1" and Slurm's "NoDevFiles" are invalid entries.
int count_of(const std::string& text) {
  int count = 0;
  for (const auto& entry : split(text, ',')) {
    const auto name = trimmed(entry);
    if (name.empty() || name.starts_with('-') || name == "NoDevFiles") break;
    ++count;
  }
  return count;
}

/// Returns the variable that shows the fewest devices, since each hides devices from the others' result.
std::optional<Visible> fewest(const Environment& env, std::initializer_list<const char*> variables) {
  std::optional<Visible> found;
  for (const char* variable : variables) {
    const auto it = env.all().find(variable);
    if (it == env.all().end()) continue;
    const int count = count_of(it->second);
    if (!found || count < found->count) found = Visible{count, variable, it->second};
  }
  return found;
}

std::optional<Visible> visible_devices(const Environment& env) {
  const auto shown = fewest(env, {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"});
  return shown ? shown : fewest(env, {"GPU_DEVICE_ORDINAL", "SLURM_STEP_GPUS"});
}

}  // namespace

bool shows_own_devices(const Environment& env, int local_rank) {
  if (env.get("SLURM_LOCALID") != std::to_string(local_rank)) return false;
  for (const char* variable : {"SLURMD_TRES_BIND", "SLURM_TRES_BIND"}) {
    const auto bind = env.get(variable).value_or("");
    for (const char* own : {"gpu:per_task:", "gpu:single:"}) {
      if (bind.find(own) != std::string::npos) return true;
    }
  }
  return false;
}

std::optional<int> shown_devices(const Environment& env) {
  const auto visible = visible_devices(env);
  return visible ? std::optional(visible->count) : std::nullopt;
}

std::optional<int> visible_device(const Environment& env, int local_rank, int local_world) {
  const auto visible = visible_devices(env);
  if (!visible || visible->count == 0) return std::nullopt;
  if (visible->count == 1 || shows_own_devices(env, local_rank)) return 0;
  // Every rank of the node makes this check. If only ranks without a device failed, the others would wait for them in
  // vain.
  if (local_world > visible->count) {
    const auto ranks = std::to_string(local_world);
    throw Error(ErrorKind::kEnvironment,
                visible->variable + "='" + visible->text + "' shows " + std::to_string(visible->count) +
                    " devices, want " + ranks + " for the " + ranks + " ranks of this node",
                "ask for as many devices as tasks on each node, or hide all with CUDA_VISIBLE_DEVICES= to run on CPU");
  }
  return local_rank;
}

}  // namespace lockstep
