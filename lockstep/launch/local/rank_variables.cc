// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/rank_variables.h"

#include <string>

#include "lockstep/launch/affinity.h"
#include "lockstep/launch/healing.h"
#include "lockstep/watch/page.h"
#include "lockstep/watch/rank_memory.h"

namespace lockstep {

Environment::Map rank_variables(const Environment& env, const LocalRank& at) {
  Environment::Map all = env.all();
  // Variables that an outer launcher set about itself would be mistaken for this launcher's.
  std::erase_if(all, [](const auto& variable) {
    const auto& name = variable.first;
    return name.starts_with("TORCHELASTIC_") || name.starts_with("GROUP_") || name.starts_with("ROLE_") ||
           name == "NODE_RANK" || name == "LOCKSTEP_STORE_FD" || name == "LOCKSTEP_HELD_STATE" ||
           name == kPageVariable || name == kRankMemoryVariable || name == kGenerationVariable;
  });
  all["RANK"] = all["LOCAL_RANK"] = std::to_string(at.rank);
  all["WORLD_SIZE"] = all["LOCAL_WORLD_SIZE"] = std::to_string(at.ranks);
  all["MASTER_ADDR"] = "127.0.0.1";
  all["MASTER_PORT"] = std::to_string(at.port);
  all["NODE_RANK"] = "0";
  // Without this variable each rank would use all cores.
  all.try_emplace("OMP_NUM_THREADS", std::to_string(at.threads));
  all["LOCKSTEP_LAUNCHER"] = "1";
  return all;
}

void bind_near_device(const Environment& env, int rank, int ranks) {
  Placement at;
  at.rank = at.local_rank = rank;
  at.world = at.local_world = ranks;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    if (env.get(name)) at.device = rank;
  }
  const CpuSet allowed = cpus_of_process();
  applied(binding_of(at, env, {}, Topology(), allowed), allowed);
}

}  // namespace lockstep
