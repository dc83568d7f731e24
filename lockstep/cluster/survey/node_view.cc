// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/node_view.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/base/cpu_set.h"
#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/survey/mounts.h"
#include "lockstep/launch/interfaces.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/launch/topology.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Returns the value in a line such as "model name : Intel …" or "MemTotal: 263 kB".
std::string value_in(const std::string& text, std::string_view key) {
  for (const auto& line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || trimmed(std::string_view(line).substr(0, colon)) != key) continue;
    return std::string(trimmed(std::string_view(line).substr(colon + 1)));
  }
  return {};
}

std::int64_t first_number(std::string_view text) {
  return parsed_int<std::int64_t>(split(trimmed(text), ' ').front()).value_or(0);
}

int cpus_in(const fs::path& file) {
  try {
    return static_cast<int>(cpus_of_list(trimmed(text_or_nothing(file))).size());
  } catch (const Error&) {
    return 0;
  }
}

std::vector<DeviceView> devices_at(const fs::path& root) {
  std::vector<DeviceView> devices;
  for (const auto& gpu : Topology(root).gpus()) {
    const auto numa = trimmed(text_or_nothing(root / "sys/bus/pci/devices" / gpu.pci / "numa_node"));
    devices.push_back(
        {.is_amd = gpu.maker == GpuMaker::kAmd, .pci = gpu.pci, .numa = parsed_int<int>(numa).value_or(-1)});
  }
  return devices;
}

std::vector<InterfaceView> interfaces_at(const fs::path& root) {
  std::vector<InterfaceView> views;
  std::set<std::string> seen{"lo"};
  for (const auto& each : list_addresses()) {
    if (is_for_containers(each.interface) || !seen.insert(each.interface).second) continue;
    const auto speed = text_or_nothing(root / "sys/class/net" / each.interface / "speed");
    views.push_back(
        {.name = each.interface, .address = each.address, .mbit = std::max<std::int64_t>(first_number(speed), 0)});
  }
  return views;
}

/// Returns the rate, such as "200 Gb/sec (4X HDR)", of each port whose state is "4: ACTIVE".
void look_at_hcas(NodeView& view, const fs::path& root) {
  const fs::path folder = root / "sys/class/infiniband";
  for (const auto& name : names_in(folder)) {
    std::int64_t gbit = 0;
    for (const auto& port : names_in(folder / name / "ports")) {
      const auto state = text_or_nothing(folder / name / "ports" / port / "state");
      if (state.starts_with("4")) gbit += first_number(text_or_nothing(folder / name / "ports" / port / "rate"));
    }
    if (gbit == 0) continue;
    view.hcas.push_back(name);
    view.hca_gbit += gbit;
  }
}

/// In /proc/net/route a default route has 00000000 as its second field.
bool has_default_route(const fs::path& root) {
  for (const auto& line : split(text_or_nothing(root / "proc/net/route"), '\n')) {
    const auto fields = split(line, '\t');
    if (fields.size() > 7 && fields[1] == "00000000" && fields[7] == "00000000") return true;
  }
  return false;
}

FolderView folder_at(const std::string& given, const Environment& env, const std::vector<Mount>& mounts) {
  FolderView view{.path = given};
  try {
    view.path = expanded(given, env);
  } catch (const Error&) {
    return view;  // It names a variable that this node does not set.
  }
  view.type = type_at(mounts, view.path);
  view.may_write = ::access(view.path.c_str(), W_OK | X_OK) == 0;
  return view;
}

void look_at_job(NodeView& view, const Environment& env) {
  view.allowed_cpus = static_cast<int>(cpus_of_process().size());
  view.given_devices = parsed_int<int>(env.get("SLURM_GPUS_ON_NODE").value_or("")).value_or(0);
  view.shown_devices = shown_devices(env).value_or(0);
  for (const auto& name : split(env.get("LOADEDMODULES").value_or(""), ':')) {
    if (!name.empty()) view.modules.push_back(name);
  }
}

json to_json_list(const std::vector<FolderView>& folders) {
  auto list = json::array();
  for (const auto& each : folders) {
    list.push_back({{"path", each.path}, {"type", each.type}, {"may_write", each.may_write}});
  }
  return list;
}

NodeView from_json(const json& object) {
  NodeView view{.host = object.at("host"),
                .cpu_name = object.at("cpu_name"),
                .cpus = object.at("cpus"),
                .allowed_cpus = object.at("allowed_cpus"),
                .numa_domains = object.at("numa_domains"),
                .memory_mib = object.at("memory_mib")};
  for (const auto& each : object.at("devices")) {
    view.devices.push_back({.is_amd = each.at("is_amd"), .pci = each.at("pci"), .numa = each.at("numa")});
  }
  view.given_devices = object.at("given_devices");
  view.shown_devices = object.at("shown_devices");
  for (const auto& each : object.at("interfaces")) {
    view.interfaces.push_back({.name = each.at("name"), .address = each.at("address"), .mbit = each.at("mbit")});
  }
  view.hcas = object.at("hcas").get<std::vector<std::string>>();
  view.hca_gbit = object.at("hca_gbit");
  view.has_cxi = object.at("has_cxi");
  view.has_default_route = object.at("has_default_route");
  for (const auto& each : object.at("folders")) {
    view.folders.push_back({.path = each.at("path"), .type = each.at("type"), .may_write = each.at("may_write")});
  }
  view.modules = object.at("modules").get<std::vector<std::string>>();
  return view;
}

}  // namespace

NodeView look_at_node(const Environment& env, const std::vector<std::string>& folders, const fs::path& root) {
  NodeView view{.host = host_name()};
  view.cpu_name = value_in(text_or_nothing(root / "proc/cpuinfo"), "model name");
  view.cpus = cpus_in(root / "sys/devices/system/cpu/online");
  view.numa_domains = cpus_in(root / "sys/devices/system/node/online");
  view.memory_mib = first_number(value_in(text_or_nothing(root / "proc/meminfo"), "MemTotal")) / 1024;
  view.devices = devices_at(root);
  view.interfaces = interfaces_at(root);
  look_at_hcas(view, root);
  view.has_cxi = !names_in(root / "sys/class/cxi").empty();
  view.has_default_route = has_default_route(root);
  const auto mounts = parsed_mounts(text_or_nothing(root / "proc/self/mounts"));
  for (const auto& folder : folders) view.folders.push_back(folder_at(folder, env, mounts));
  look_at_job(view, env);
  return view;
}

nlohmann::json to_json(const NodeView& view) {
  auto devices = json::array();
  for (const auto& each : view.devices) {
    devices.push_back({{"is_amd", each.is_amd}, {"pci", each.pci}, {"numa", each.numa}});
  }
  auto interfaces = json::array();
  for (const auto& each : view.interfaces) {
    interfaces.push_back({{"name", each.name}, {"address", each.address}, {"mbit", each.mbit}});
  }
  return {{"host", view.host},
          {"cpu_name", view.cpu_name},
          {"cpus", view.cpus},
          {"allowed_cpus", view.allowed_cpus},
          {"numa_domains", view.numa_domains},
          {"memory_mib", view.memory_mib},
          {"devices", devices},
          {"given_devices", view.given_devices},
          {"shown_devices", view.shown_devices},
          {"interfaces", interfaces},
          {"hcas", view.hcas},
          {"hca_gbit", view.hca_gbit},
          {"has_cxi", view.has_cxi},
          {"has_default_route", view.has_default_route},
          {"folders", to_json_list(view.folders)},
          {"modules", view.modules}};
}

NodeView parsed_node_view(std::string_view text) {
  for (const auto& line : split(text, '\n')) {
    const auto object = json::parse(line, nullptr, false);
    if (!object.is_object()) continue;
    try {
      return from_json(object);
    } catch (const json::exception&) {
      continue;
    }
  }
  throw Error(ErrorKind::kData,
              "a compute node sent '" + std::string(text.substr(0, 80)) + "', want what it is made of",
              "try `lockstep profile node` there by hand");
}

}  // namespace lockstep
