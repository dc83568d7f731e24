// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Which of its node's devices a task sees.
enum class DeviceVisibility {
  kAsFound,  ///< As the launcher shows them.
  kOne,      ///< Only its own. One is then index 0, several are the first indices.
  kAll,      ///< All, of which its own is the one with its local rank's index.
};

/// Variables that a site sets for a task, each unless the user has set it.
struct SiteVariables {
  Environment::Map always{};
  Environment::Map on_one_node{};       ///< Additional variables if all ranks are on one node. They override `always`.
  Environment::Map on_several_nodes{};  ///< Additional variables if they are on several nodes.
};

/// The network that ranks are to meet on.
struct SiteNetwork {
  std::vector<std::string> interfaces{};  ///< Best first. The first letters of a name are enough.
  std::string host_suffix{};              ///< Suffix of a node's name on this network, such as "i".
};

/// The node's own disk or memory, for caches.
struct SiteCaches {
  std::filesystem::path node_local{};    ///< Used if $TMPDIR is unset. If empty, /tmp.
  std::vector<std::string> variables{};  ///< Each is to name a folder of the task's own there.
};

/// The settings of a site's profile for one task. Settings that the profile lacks are found from the job and the
/// machine.
struct TaskSettings {
  std::string cluster = "generic";       ///< Whose settings these are, for messages.
  SiteVariables variables{};             ///< In values, {user} {job} {rank} {local_rank} {node_rank} are filled in.
  std::vector<std::string> cpu_masks{};  ///< By the device's number on its node, as srun's mask_cpu has them.
  DeviceVisibility devices = DeviceVisibility::kAsFound;
  std::vector<std::string> device_order{};  ///< In which tasks that see all of a node's devices are to see them.
  SiteNetwork network{};
  SiteCaches caches{};
};

}  // namespace lockstep
