// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// How many of its node's devices a task is shown.
enum class DeviceVisibility {
  kAsFound,  ///< As the launcher shows them.
  kOne,      ///< Its own alone: one is then index 0, several are the first.
  kAll,      ///< All, of which its own is the one with its local rank's index.
};

/// Variables that a site wants, where the user has set none of his own.
struct SiteVariables {
  Environment::Map always{};
  Environment::Map on_one_node{};       ///< Besides, where all ranks are on one node; comes before `always`.
  Environment::Map on_several_nodes{};  ///< Besides, where they are on several.
};

/// The network that ranks are to meet on.
struct SiteNetwork {
  std::vector<std::string> interfaces{};  ///< Best first; the first letters of a name are enough.
  std::string host_suffix{};              ///< What a node's name gets so that it means this network, e.g. "i".
};

/// The node's own disk or memory, where caches belong.
struct SiteCaches {
  std::filesystem::path node_local{};    ///< Where $TMPDIR is not; empty: /tmp.
  std::vector<std::string> variables{};  ///< Each is to name a folder of the task's own there.
};

/// What a site's profile says of one task. What is not given here comes from the job and the machine.
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
