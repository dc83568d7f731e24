// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/libraries.h"

#include <algorithm>
#include <array>
#include <map>

#include "lockstep/base/elf.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/container.h"
#include "lockstep/cluster/doctor/devices.h"
#include "lockstep/cluster/doctor/files.h"
#include "lockstep/cluster/doctor/library_search.h"
#include "lockstep/cluster/doctor/torch.h"
#include "lockstep/telemetry/network_watch.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFabric = "libfabric.so.1";

/// A network that NCCL and RCCL can use only through libfabric, and the provider that libfabric needs for it.
struct FabricNetwork {
  std::string_view prefix;    ///< Of what fast_network() says.
  std::string_view provider;  ///< libfabric's name for it.
  std::string_view library;   ///< A library that libfabric is linked to if it has that provider built in.
};
constexpr auto kFabricNetworks =
    std::to_array<FabricNetwork>({{"Slingshot", "cxi", "libcxi.so"}, {"EFA", "efa", "libefa.so"}});

const FabricNetwork* fabric_network(const DoctorContext& of) {
  const auto fast = fast_network(of.env, of.root);
  if (!fast) return nullptr;
  const auto row = std::ranges::find_if(kFabricNetworks, [&](const auto& at) { return fast->starts_with(at.prefix); });
  return row == kFabricNetworks.end() ? nullptr : &*row;
}

/// Returns the file names that NCCL or RCCL tries for its plugin. Source: NCCL's environment variables,
/// NCCL_NET_PLUGIN.
std::vector<std::string> plugin_names(const DoctorContext& of) {
  const auto set = of.env.get("NCCL_NET_PLUGIN");
  if (set) return {*set, "librccl-net-" + *set + ".so", "libnccl-net-" + *set + ".so"};
  return {"librccl-net.so", "libnccl-net.so", "librccl-net-ofi.so", "libnccl-net-ofi.so"};
}

fs::path found_plugin(const DoctorContext& of) {
  std::error_code none;
  for (const auto& name : plugin_names(of)) {
    if (name.find('/') == std::string::npos) {
      if (auto path = found_library(of, name); !path.empty()) return path;
    } else if (fs::exists(of.at_root(name), none)) {
      return of.at_root(name);
    }
  }
  return {};
}

bool has_provider(const DoctorContext& of, const fs::path& fabric, const FabricNetwork& network) {
  const auto library = shared_library(fabric);
  if (!library) return true;  // Nothing can be told, so nothing is claimed.
  const auto is_it = [&](const std::string& name) { return name.starts_with(network.library); };
  if (std::ranges::any_of(library->needed, is_it)) return true;
  // A provider of libfabric may be built in, or may be a separate file. Source: fi_provider(3).
  const std::string file = "lib" + std::string(network.provider) + "-fi.so";
  std::vector<fs::path> folders = {fabric.parent_path() / "libfabric"};
  for (const auto& folder : split(of.env.get("FI_PROVIDER_PATH").value_or(""), ':')) {
    if (!folder.empty()) folders.push_back(of.at_root(folder));
  }
  std::error_code none;
  return std::ranges::any_of(folders, [&](const fs::path& folder) { return fs::exists(folder / file, none); });
}

void check_fabric(const DoctorContext& of, const fs::path& plugin, const FabricNetwork& network, Findings& findings) {
  const auto missing = missing_library(of, plugin);
  if (!missing.empty()) {
    findings.error("library-plugin-broken",
                   "the network plugin '" + plugin.string() + "' needs " + missing +
                       ", which the loader does not find: NCCL then goes on over sockets, silently",
                   is_in_container(of)
                       ? "bind it into the container, as `lockstep submit --container` does for this system"
                       : "put its folder into LD_LIBRARY_PATH, or load the module that it belongs to");
    return;
  }
  const auto library = shared_library(plugin);
  const auto fabric = library ? found_library(of, kFabric, library->run_path) : fs::path();
  if (fabric.empty() || has_provider(of, fabric, network)) return;
  findings.error(
      "library-libfabric-wrong",
      "the loader finds libfabric as '" + fabric.string() + "', which has no provider '" +
          std::string(network.provider) + "': the network plugin cannot use " + std::string(network.prefix),
      "put the system's own libfabric first in LD_LIBRARY_PATH, and take the other (mostly an environment's) out");
}

void check_plugin(const DoctorContext& of, Findings& findings) {
  const auto* network = fabric_network(of);
  if (network == nullptr || usable_gpus(of).empty()) return;
  const auto plugin = found_plugin(of);
  if (!plugin.empty()) {
    check_fabric(of, plugin, *network, findings);
    return;
  }
  findings.add(of.spans_nodes() ? Severity::kError : Severity::kNote, "library-plugin-missing",
               "this node has " + std::string(network->prefix) +
                   ", but the loader finds no network plugin (librccl-net.so, libnccl-net.so): between nodes NCCL and "
                   "RCCL use sockets, many times slower",
               "load the site's module for it, put its folder into LD_LIBRARY_PATH, or name the file: "
               "NCCL_NET_PLUGIN=/path/librccl-net.so");
}

void check_collectives(const DoctorContext& of, Findings& findings) {
  for (const char* name : {"librccl.so.1", "libnccl.so.2"}) {
    std::map<fs::path, std::string> found;
    std::error_code none;
    for (const auto& folder : library_path(of)) {
      const auto path = of.at_root(folder) / name;
      if (fs::exists(path, none)) found.try_emplace(fs::canonical(path, none), folder / name);
    }
    if (found.size() < 2) continue;
    std::string list;
    for (const auto& [real, shown] : found) list += (list.empty() ? "'" : " and '") + shown + "'";
    findings.warning("library-two-collectives",
                     "LD_LIBRARY_PATH has " + std::to_string(found.size()) + " of " + name + ": " + list +
                         "; which of them a program gets depends on its order, and a process with two hangs or crashes",
                     "leave one: unload the module that brings the other, or take its folder out of LD_LIBRARY_PATH");
  }
}

/// Returns the version of a system library that PyTorch needs, from the versions that its own libraries name.
std::string needed_version(const fs::path& torch, const std::string& prefix) {
  std::string newest;
  for (const char* name : {"libc10.so", "libtorch_cpu.so", "libtorch_python.so"}) {
    const auto library = shared_library(torch / "lib" / name);
    if (!library) continue;
    const auto version = newest_version(library->requires_, prefix);
    if (newest.empty() || is_older(newest, version)) newest = version;
  }
  return newest;
}

void check_runtime(const DoctorContext& of, const fs::path& torch, Findings& findings) {
  std::error_code none;
  const auto conda = of.env.get("CONDA_PREFIX");
  const bool has_own = conda && fs::exists(of.at_root(*conda) / "lib/libstdc++.so.6", none);
  const auto wanted = needed_version(torch, "GLIBCXX_");
  const auto path = found_library(of, "libstdc++.so.6");
  // Programs of a conda environment use the environment's own copy of the library. Only LD_LIBRARY_PATH comes before
  // it.
  const bool is_first = std::ranges::any_of(
      library_path(of), [&](const fs::path& folder) { return of.at_root(folder) == path.parent_path(); });
  if (!path.empty() && !wanted.empty() && (is_first || !has_own)) {
    const auto library = shared_library(path);
    const auto found = library ? newest_version(library->provides, "GLIBCXX_") : std::string();
    if (!found.empty() && is_older(found, wanted)) {
      findings.error("library-libstdcxx-old",
                     "the loader finds '" + path.string() + "' with GLIBCXX_" + found + ", PyTorch in '" +
                         torch.string() + "' needs GLIBCXX_" + wanted + ": its import fails",
                     is_first ? "take that folder out of LD_LIBRARY_PATH (unload the old compiler's module)"
                              : "load a newer compiler's module, or put its folder first in LD_LIBRARY_PATH");
    }
  }
  const auto c_library = found_library(of, "libc.so.6");
  const auto c_wanted = needed_version(torch, "GLIBC_");
  const auto library = c_library.empty() ? std::nullopt : shared_library(c_library);
  const auto c_found = library ? newest_version(library->provides, "GLIBC_") : std::string();
  if (!c_found.empty() && is_older(c_found, c_wanted)) {
    findings.error("library-glibc-old",
                   "this system has glibc " + c_found + ", PyTorch in '" + torch.string() + "' needs " + c_wanted,
                   "run it in a container: `lockstep submit --container IMAGE`; glibc cannot be swapped by a path");
  }
}

}  // namespace

void check_libraries(const DoctorContext& of, Findings& findings) {
  check_plugin(of, findings);
  check_collectives(of, findings);
  if (const auto torch = torch_folder(of); !torch.empty()) check_runtime(of, torch, findings);
}

}  // namespace lockstep
