// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/live_check.h"

#include <fnmatch.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/survey/mounts.h"

namespace lockstep {
namespace {

using Differences = std::vector<LiveDifference>;

std::string device_names(std::int64_t count) { return counted(count, "device"); }

void compare_tasks(const ExpectedTasks& expected, std::span<const NodeView> views, Differences& out) {
  if (std::ssize(views) != expected.tasks) {
    out.push_back({"sbatch", counted(std::ssize(views), "task") + " reported", counted(expected.tasks, "task")});
  }
  for (std::size_t task = 0; task < views.size(); ++task) {
    const auto& view = views[task];
    const auto name = "task " + std::to_string(task);
    if (view.allowed_cpus < expected.cores_per_task) {
      out.push_back({expected.devices > 0 ? "sbatch.cores_per_device" : "sbatch.cores",
                     name + " may run on " + counted(view.allowed_cpus, "CPU"),
                     std::to_string(expected.cores_per_task)});
    }
    // A task may see only its own device, or all devices of the node. Both are correct.
    const bool sees_enough = view.shown_devices == 1 || view.shown_devices >= expected.devices / expected.tasks;
    if (expected.devices > 0 && (view.shown_devices == 0 || !sees_enough)) {
      out.push_back({"sbatch.devices", name + " is shown " + device_names(view.shown_devices),
                     device_names(expected.devices / expected.tasks) + " or more"});
    }
  }
}

void compare_node(const Profile& profile, const NodeView& view, Differences& out) {
  const auto on_node = " on " + view.host;
  if (profile.node.cores > 0 && view.cpus > 0 && view.cpus < profile.node.cores) {
    out.push_back({"node.cores", counted(view.cpus, "CPU") + on_node, std::to_string(profile.node.cores)});
  }
  if (profile.node.numa_domains > 0 && view.numa_domains > 0 && view.numa_domains != profile.node.numa_domains) {
    out.push_back(
        {"node.numa_domains", std::to_string(view.numa_domains) + on_node, std::to_string(profile.node.numa_domains)});
  }
  // The kernel reserves a few percent of the installed memory, so a small difference is allowed.
  if (view.memory_mib > 0 && view.memory_mib * 10 < profile.node.memory_gib * 1024 * 9) {
    out.push_back({"node.memory_gib", std::to_string(view.memory_mib / 1024) + " GiB" + on_node,
                   std::to_string(profile.node.memory_gib) + " GiB"});
  }
}

void compare_devices(const Profile& profile, const ExpectedTasks& expected, const NodeView& view, Differences& out) {
  const auto on_node = " on " + view.host;
  if (expected.devices > 0 && view.given_devices != expected.devices) {
    out.push_back(
        {"devices.count", device_names(view.given_devices) + " of this job" + on_node, device_names(expected.devices)});
  }
  if (view.devices.empty()) return;
  const std::string backend = view.devices.front().is_amd ? "rocm" : "cuda";
  if (!profile.devices.backend.empty() && profile.devices.backend != backend) {
    out.push_back({"devices.backend", backend + " by the drivers" + on_node, profile.devices.backend});
  }
  const auto numa = map_each(view.devices, [](const auto& each) { return std::int64_t{each.numa}; });
  const bool is_told = std::ranges::all_of(numa, [](auto each) { return each >= 0; });
  if (is_told && !profile.devices.numa.empty() && numa != profile.devices.numa) {
    const auto text = [](const auto& list) {
      return joined(map_each(list, [](auto each) { return std::to_string(each); }), " ");
    };
    out.push_back({"devices.numa", text(numa) + on_node, text(profile.devices.numa)});
  }
}

/// True if the node has all interfaces of one alternative, such as "hsn0,hsn1" or "ibp*".
bool has_interfaces(const NodeView& view, const std::string& alternative) {
  return std::ranges::all_of(split(alternative, ','), [&](const auto& pattern) {
    return std::ranges::any_of(view.interfaces, [&](const auto& each) {
      return ::fnmatch(pattern.c_str(), each.name.c_str(), 0) == 0 || each.name.starts_with(pattern);
    });
  });
}

void compare_network(const Profile& profile, const NodeView& view, Differences& out) {
  const auto& wanted = profile.network.interfaces;
  if (wanted.empty()) return;
  if (std::ranges::any_of(wanted, [&](const auto& each) { return has_interfaces(view, each); })) return;
  const auto names = map_each(view.interfaces, [](const auto& each) { return each.name; });
  out.push_back({"network.interfaces",
                 (names.empty() ? std::string("no interface but loopback") : joined(names, ", ")) + " on " + view.host,
                 "one of " + joined(wanted, " or ")});
}

void compare_folders(const Profile& profile, const NodeView& view, Differences& out) {
  for (const auto& folder : view.folders) {
    const bool is_local = folder.path == profile.storage.node_local;
    const std::string key = is_local ? "storage.node_local" : "storage.scratch";
    if (!folder.may_write) {
      out.push_back({key, "'" + folder.path + "' is not there, or not yours to write in, on " + view.host,
                     "a folder that a job may write in"});
    }
    const bool is_memory = is_memory_type(folder.type);
    if (is_local && folder.may_write && profile.origins.contains("storage.node_local_is_memory") &&
        is_memory != profile.storage.node_local_is_memory) {
      out.push_back({"storage.node_local_is_memory", "'" + folder.path + "' is " + folder.type + " on " + view.host,
                     profile.storage.node_local_is_memory ? "memory" : "a disk"});
    }
  }
}

void compare_modules(const Profile& profile, const NodeView& view, Differences& out) {
  for (const auto& wanted : profile.modules.load) {
    const auto is_it = [&](const auto& loaded) { return loaded == wanted || loaded.starts_with(wanted + "/"); };
    if (std::ranges::any_of(view.modules, is_it)) continue;
    out.push_back({"modules.load",
                   view.modules.empty() ? "no module is loaded" : "loaded are " + joined(view.modules, ", "), wanted});
  }
}

}  // namespace

std::vector<LiveDifference> live_differences(const Profile& profile, const ExpectedTasks& expected,
                                             std::span<const NodeView> views) {
  Differences out;
  compare_tasks(expected, views, out);
  if (views.empty()) return out;
  const auto& view = views.front();
  compare_node(profile, view, out);
  compare_devices(profile, expected, view, out);
  compare_network(profile, view, out);
  compare_folders(profile, view, out);
  compare_modules(profile, view, out);
  return out;
}

std::vector<std::string> folders_to_check(const Profile& profile, const Environment& env) {
  std::vector<std::string> folders;
  const auto& scratch = profile.storage.scratch;
  const bool has_project = scratch.find("{project}") != std::string::npos;
  if (!scratch.empty() && (!has_project || !profile.slurm.account.empty())) {
    const auto user = env.get("USER").value_or("");
    try {
      folders.push_back(expanded(expand_template(scratch, {{"user", user}, {"project", profile.slurm.account}}), env));
    } catch (const Error&) {
      folders.push_back(scratch);  // The task finds it missing, and says so.
    }
  }
  if (!profile.storage.node_local.empty()) folders.push_back(profile.storage.node_local);
  return folders;
}

}  // namespace lockstep
