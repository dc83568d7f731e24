// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/profile/profile.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {

std::string Profile::origin(std::string_view key) const {
  const auto found = origins.find(key);
  return found == origins.end() ? name : found->second;
}

NodeBilling node_billing(const Profile& profile, int devices, int cores, bool has_whole_node) {
  const auto& slurm = profile.slurm;
  const bool is_core = slurm.billing == "core";
  const bool is_device = slurm.billing == "device";
  auto whole = slurm.billed_per_node;
  if (whole == 0) whole = is_core ? profile.node.cores : is_device ? profile.devices.count : 1;
  double share = 1;
  if (!has_whole_node && profile.devices.count > 0) {
    const auto node_cores =
        std::max(profile.node.usable_cores, profile.sbatch.cores_per_device * profile.devices.count);
    share = static_cast<double>(devices) / static_cast<double>(profile.devices.count);
    if (node_cores > 0) share = std::max(share, static_cast<double>(cores) / static_cast<double>(node_cores));
    share = std::min(share, 1.0);
  }
  return {.unit = is_core     ? "core-hours"
                  : is_device ? "GPU-hours"
                              : "node-hours",
          .per_hour = static_cast<double>(std::max<std::int64_t>(whole, 1)) * share};
}

const ProfileQueue* known_queue(const Profile& profile, const std::string& qos, const std::string& partition) {
  if (const auto found = profile.qos.find(qos); found != profile.qos.end()) return &found->second;
  const auto found = profile.partitions.find(partition);
  return found == profile.partitions.end() ? nullptr : &found->second;
}

const std::string& site_image(const Profile& profile) {
  if (!profile.container.image.empty()) return profile.container.image;
  throw Error(ErrorKind::kEnvironment, "--container site: the profile " + profile.name + " names no image",
              "give the image's path, or set [container] image in a profile of your own");
}

ProfileEnv env_for(const Profile& profile, int nodes) {
  ProfileEnv all = profile.env;
  for (const auto& [key, value] : nodes > 1 ? profile.env_many_nodes : profile.env_one_node) all[key] = value;
  return all;
}

}  // namespace lockstep
