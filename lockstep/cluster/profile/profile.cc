// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/profile/profile.h"

namespace lockstep {

std::string Profile::origin(std::string_view key) const {
  const auto found = origins.find(key);
  return found == origins.end() ? name : found->second;
}

ProfileEnv env_for(const Profile& profile, int nodes) {
  ProfileEnv all = profile.env;
  for (const auto& [key, value] : nodes > 1 ? profile.env_many_nodes : profile.env_one_node) all[key] = value;
  return all;
}

}  // namespace lockstep
