// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/network.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/doctor/container.h"
#include "lockstep/cluster/doctor/files.h"
#include "lockstep/launch/interfaces.h"
#include "lockstep/launch/rendezvous.h"
#include "lockstep/launch/socket.h"
#include "lockstep/telemetry/network_watch.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const NetworkInterface* interface_of(const DoctorContext& of, const std::string& prefix) {
  const auto& all = of.system.interfaces;
  const auto found = std::ranges::find_if(all, [&](const auto& each) { return each.name.starts_with(prefix); });
  return found == all.end() ? nullptr : &*found;
}

std::string names_of(const std::vector<NetworkInterface>& interfaces) {
  std::vector<std::string> names;
  names.reserve(interfaces.size());
  for (const auto& each : interfaces) names.push_back(each.name);
  return joined(names, ", ");
}

void check_named(const DoctorContext& of, const std::string& variable, Findings& findings) {
  const auto named = read_interface_names(variable, of.env);
  if (!named || named->excludes) return;
  std::vector<std::string> missing;
  for (const auto& name : named->names) {
    const auto fits = [&](const NetworkInterface& each) { return named->matches(name, each.name); };
    if (std::ranges::none_of(of.system.interfaces, fits)) missing.push_back(name);
  }
  if (missing.empty()) return;
  // Gloo uses every interface in its list.
  const bool is_all = missing.size() == named->names.size() || variable == "GLOO_SOCKET_IFNAME";
  findings.add(is_all ? Severity::kError : Severity::kWarning, "network-interface-missing",
               variable + " names " + joined(missing, ", ") + ", this node has " + names_of(of.system.interfaces),
               "unset " + variable + ", or name one of these; `lockstep exec` takes the profile's");
}

/// Returns the first of the profile's entries of which this node has an interface. An entry is one name, or several
/// with commas.
std::vector<std::string> fast_names(const DoctorContext& of) {
  for (const auto& entry : of.profile.network.interfaces) {
    std::vector<std::string> names;
    for (auto name : split(entry, ',')) {
      if (name.ends_with('*')) name.pop_back();
      names.push_back(name);
    }
    if (std::ranges::any_of(names, [&](const auto& name) { return interface_of(of, name) != nullptr; })) return names;
  }
  return {};
}

void check_fast(const DoctorContext& of, Findings& findings) {
  // The generic profile lists interfaces that a node may have. A system's own profile lists those that its compute
  // nodes do have, so a missing one is a finding.
  const bool is_known = of.profile.name != "generic" && !of.profile.network.interfaces.empty();
  const auto names = fast_names(of);
  if (names.empty()) {
    if (is_known && of.spans_nodes()) {
      findings.error("network-no-fast-interface",
                     "this node has none of the interfaces that " + of.profile.name + " has (" +
                         joined(of.profile.network.interfaces, "; ") + "), but " + names_of(of.system.interfaces),
                     "leave the node out with --exclude=" + of.host + ", or name the right profile with --cluster");
    }
    return;
  }
  for (const auto& name : names) {
    const auto fits = [&](const NetworkInterface& each) { return each.name.starts_with(name); };
    const auto& all = of.system.interfaces;
    const std::string fix = "leave the node out with --exclude=" + of.host + " and tell the support";
    if (std::ranges::none_of(all, fits)) {
      if (is_known) {
        findings.warning("network-interface-gone",
                         "this node has no interface " + name + ", want " + joined(names, ", "), fix);
      }
    } else if (of.spans_nodes() &&
               std::ranges::none_of(all, [&](const auto& each) { return fits(each) && each.is_up; })) {
      findings.error("network-interface-down", "the interface " + interface_of(of, name)->name + " is down", fix);
    }
  }
}

/// True if this address belongs to a fast interface.
bool is_fast(const DoctorContext& of, const std::vector<std::string>& addresses) {
  for (const auto& name : fast_names(of)) {
    for (const auto& each : of.system.interfaces) {
      if (!each.name.starts_with(name)) continue;
      for (const auto& address : addresses) {
        if (std::ranges::find(each.addresses, address) != each.addresses.end()) return true;
      }
    }
  }
  return false;
}

/// Returns the name by which other nodes reach this one.
std::string own_name(const DoctorContext& of) {
  const auto index = static_cast<std::size_t>(of.at.node_rank);
  const auto name = index < of.at.hosts.size() ? of.at.hosts[index] : split(of.host, '.').front();
  return name + of.profile.network.host_suffix;
}

void check_names(const DoctorContext& of, Findings& findings) {
  if (!of.spans_nodes() || !of.system.addresses_of) return;
  const auto name = own_name(of);
  const auto addresses = of.system.addresses_of(name);
  const std::string fix =
      "start the program with `lockstep exec`, which hands out rank 0's address itself; or set MASTER_ADDR to a number";
  if (addresses.empty()) {
    findings.warning("network-name-unknown", "this node's name '" + name + "' does not resolve", fix);
  } else if (std::ranges::all_of(addresses, is_loopback)) {
    findings.warning("network-name-loopback",
                     "this node's name '" + name + "' means " + addresses.front() +
                         " here (/etc/hosts): a program that meets by names waits on its own node",
                     fix);
  } else if (!fast_names(of).empty() && of.profile.name != "generic" && !is_fast(of, addresses)) {
    findings.warning("network-name-slow",
                     "this node's name '" + name + "' means " + addresses.front() + ", which is no address of " +
                         joined(fast_names(of), ", ") + ": what meets by names uses the slow network",
                     "set MASTER_ADDR to an address of the fast network, and NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME "
                     "to its interfaces; `lockstep exec` does so");
  }
}

void check_port(const DoctorContext& of, Findings& findings) {
  if (of.at.rank != 0 || of.at.world < 2 || !of.system.is_port_free) return;
  try {
    const auto port = agreed_port(of.at, of.env);
    // If torchrun started this rank, the port is in use already, by the store of torchrun's agent. So that is not a
    // fault.
    if (!port || of.at.source == "torchrun" || of.system.is_port_free(*port)) return;
    findings.error(
        "network-port-taken",
        "port " + std::to_string(*port) + " is taken on rank 0's node, where the ranks are to meet",
        "set MASTER_PORT for all ranks to another, or leave it unset: `lockstep exec` takes one from the job");
  } catch (const Error& error) {
    const std::string text = error.what();
    findings.error("network-port-invalid", text.substr(0, text.find('\n')),
                   "set MASTER_PORT for all ranks to a number between 1024 and 65535, or leave it unset");
  }
}

void check_infiniband(const DoctorContext& of, Findings& findings) {
  const auto folder = of.at_root("/sys/class/infiniband");
  const auto adapters = names_in(folder);
  auto wanted = of.env.get("NCCL_IB_HCA").value_or("");
  if (!wanted.empty() && !adapters.empty() && !wanted.starts_with('^')) {
    if (wanted.starts_with('=')) wanted.erase(0, 1);
    for (const auto& entry : split(wanted, ',')) {
      const auto name = split(entry, ':').front();
      if (std::ranges::any_of(adapters, [&](const auto& each) { return each.starts_with(name); })) continue;
      findings.error("network-adapter-missing",
                     "NCCL_IB_HCA names " + name + ", this node has " + joined(adapters, ", "),
                     "unset NCCL_IB_HCA, or name adapters that are there");
    }
  }
  for (const auto& adapter : adapters) {
    const auto state = text_or_nothing(folder / adapter / "ports/1/state");
    const bool is_used = of.profile.network.hcas.empty()
                             ? false
                             : std::ranges::find(of.profile.network.hcas, adapter) != of.profile.network.hcas.end();
    if (!is_used || state.empty() || state.find("ACTIVE") != std::string::npos) continue;
    findings.error("network-adapter-down",
                   "port 1 of " + adapter + " is '" + std::string(trimmed(state)) + "', want ACTIVE",
                   "leave the node out with --exclude=" + of.host + " and tell the support");
  }
}

/// In a container /sys lists the network adapters, but the device files to open them exist only if they are bound.
void check_device_files(const DoctorContext& of, Findings& findings) {
  if (!of.spans_nodes()) return;
  std::error_code none;
  const auto verbs = names_in(of.at_root("/sys/class/infiniband"));
  const auto cxi = names_in(of.at_root("/sys/class/cxi"));
  const auto missing = [&](const std::string& adapter, const std::string& file) {
    findings.error("network-adapter-hidden",
                   "this node has " + adapter + ", but " + file + " is not there: programs here cannot use it",
                   is_in_container(of) ? "bind " + file + " into the container"
                                       : "leave the node out with --exclude=" + of.host + " and tell the support");
  };
  if (!verbs.empty() && !fs::exists(of.at_root("/dev/infiniband"), none)) missing(verbs.front(), "/dev/infiniband");
  if (!cxi.empty() && !fs::exists(of.at_root("/dev/" + cxi.front()), none)) missing(cxi.front(), "/dev/" + cxi.front());
}

}  // namespace

void check_network(const DoctorContext& of, Findings& findings) {
  check_named(of, "LOCKSTEP_INTERFACE", findings);
  check_named(of, "NCCL_SOCKET_IFNAME", findings);
  check_named(of, "GLOO_SOCKET_IFNAME", findings);
  check_fast(of, findings);
  check_names(of, findings);
  check_port(of, findings);
  check_infiniband(of, findings);
  check_device_files(of, findings);
}

}  // namespace lockstep
