// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// A GPU that a task of a node may open.
struct DeviceView {
  bool is_amd = false;
  std::string pci{};  ///< "0000:c1:00.0"
  int numa = -1;      ///< -1 if the kernel does not say.
};

/// A network interface of a node that is up.
struct InterfaceView {
  std::string name{};
  std::string address{};  ///< Numeric.
  std::int64_t mbit = 0;  ///< By the kernel. 0 if it does not say.
};

/// A folder, as a task sees it on its node.
struct FolderView {
  std::string path{};
  std::string type{};  ///< Type of its file system, such as "tmpfs".
  bool may_write = false;
};

/// The facts that a task finds on a compute node.
struct NodeView {
  std::string host{};
  std::string cpu_name{};
  int cpus = 0;          ///< That the node has.
  int allowed_cpus = 0;  ///< That this task may run on.
  int numa_domains = 0;
  std::int64_t memory_mib = 0;
  std::vector<DeviceView> devices{};
  int given_devices = 0;  ///< Of this job on this node, as Slurm says.
  int shown_devices = 0;  ///< That the variables show this task.
  std::vector<InterfaceView> interfaces{};
  std::vector<std::string> hcas{};  ///< InfiniBand adapters with a port that is up.
  std::int64_t hca_gbit = 0;        ///< Of all of them together.
  bool has_cxi = false;             ///< Slingshot adapters.
  bool has_default_route = false;
  std::vector<FolderView> folders{};  ///< Those that were asked for.
  std::vector<std::string> modules{};
};

/// Collects the facts about the node on which this process runs. `folders` may contain $NAME. In tests `root` replaces
/// "/".
NodeView look_at_node(const Environment& env, const std::vector<std::string>& folders,
                      const std::filesystem::path& root = "/");

nlohmann::json to_json(const NodeView& view);

/// Parses a text whose last line was written by to_json(). The output of a job's prolog may come before that line.
///
/// Throws: Error(kData) with the start of the text if there is no such line.
NodeView parsed_node_view(std::string_view text);

}  // namespace lockstep
