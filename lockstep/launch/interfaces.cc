// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/socket.h"

namespace lockstep {
namespace {

constexpr const char* kNcclVariable = "NCCL_SOCKET_IFNAME";
constexpr const char* kLoopback = "127.0.0.1";

/// The first interface that matches is taken. If it has an IPv4 address, that one is returned, else an IPv6 address.
template <typename Fits>
std::optional<std::string> first_address(std::span<const InterfaceAddress> addresses, Fits fits) {
  const auto first = std::ranges::find_if(addresses, fits);
  if (first == addresses.end()) return std::nullopt;
  const auto four = std::find_if(first, addresses.end(), [&](const auto& each) {
    return !each.is_ipv6 && each.interface == first->interface && fits(each);
  });
  return four == addresses.end() ? first->address : four->address;
}

std::optional<std::string> first_reachable(std::span<const InterfaceAddress> addresses) {
  return first_address(
      addresses, [](const auto& each) { return !is_loopback(each.address) && !is_for_containers(each.interface); });
}

[[noreturn]] void refuse(const InterfaceNames& names, std::span<const InterfaceAddress> addresses) {
  std::vector<std::string> known;
  for (const auto& each : addresses) known.push_back(each.interface + " (" + each.address + ")");
  throw Error(
      ErrorKind::kEnvironment,
      names.variable + "='" + names.value + "' " +
          (names.excludes ? "leaves no interface that has an address" : "names no interface that has an address") +
          "; those that have one: " + (known.empty() ? "none" : joined(known, ", ")),
      "set LOCKSTEP_INTERFACE to one of them");
}

std::string choose_named(std::span<const InterfaceAddress> addresses, const InterfaceNames& wanted) {
  for (const auto& name : wanted.names) {
    const auto fits = [&](const auto& each) { return wanted.matches(name, each.interface); };
    if (const auto found = first_address(addresses, fits)) return *found;
  }
  refuse(wanted, addresses);
}

std::string choose_not_excluded(std::span<const InterfaceAddress> addresses, const InterfaceNames& excluded) {
  std::vector<InterfaceAddress> rest;
  std::ranges::copy_if(addresses, std::back_inserter(rest),
                       [&](const auto& each) { return !excluded.contains(each.interface); });
  if (const auto found = first_reachable(rest)) return *found;
  const auto loopback = first_address(rest, [](const auto& each) { return is_loopback(each.address); });
  if (loopback) return *loopback;
  refuse(excluded, addresses);
}

}  // namespace

std::vector<InterfaceAddress> list_addresses() {
  ifaddrs* head = nullptr;
  if (::getifaddrs(&head) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(head, &::freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* at = list.get(); at != nullptr; at = at->ifa_next) {
    auto address = numeric_text(at->ifa_addr);
    if (!address || (at->ifa_flags & IFF_UP) == 0) continue;
    const bool is_ipv6 = at->ifa_addr->sa_family == AF_INET6;
    if (is_ipv6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr)) continue;
    found.push_back({.interface = at->ifa_name, .address = std::move(*address), .is_ipv6 = is_ipv6});
  }
  std::stable_partition(found.begin(), found.end(), [](const auto& each) { return !each.is_ipv6; });
  return found;
}

bool is_for_containers(const std::string& interface) {
  constexpr std::array<std::string_view, 5> kPrefixes = {"docker", "virbr", "veth", "br-", "cni"};
  return std::ranges::any_of(kPrefixes, [&](auto prefix) { return interface.starts_with(prefix); });
}

bool InterfaceNames::matches(const std::string& name, const std::string& interface) const {
  return is_exact ? interface == name : interface.starts_with(name);
}

bool InterfaceNames::contains(const std::string& interface) const {
  return std::ranges::any_of(names, [&](const auto& name) { return matches(name, interface); });
}

std::optional<InterfaceNames> read_interface_names(const std::string& variable, const Environment& env) {
  const auto value = env.get(variable);
  if (!value) return std::nullopt;
  InterfaceNames read{.variable = variable, .value = *value, .is_exact = variable != kNcclVariable};
  std::string_view list = *value;
  if (list.starts_with('^')) {
    read.excludes = true;
    list.remove_prefix(1);
  }
  if (list.starts_with('=')) {
    read.is_exact = true;
    list.remove_prefix(1);
  }
  for (const auto& entry : split(list, ',')) {
    // In the other variables ":1" belongs to the name, since Linux labels the second address of an interface so.
    const std::string name(trimmed(variable == kNcclVariable ? split(entry, ':').front() : entry));
    if (!name.empty()) read.names.push_back(name);
  }
  if (read.names.empty()) return std::nullopt;
  return read;
}

std::optional<InterfaceNames> read_interface_names(const Environment& env) {
  for (const char* variable : {"LOCKSTEP_INTERFACE", "GLOO_SOCKET_IFNAME", kNcclVariable}) {
    if (auto read = read_interface_names(variable, env)) return read;
  }
  return std::nullopt;
}

std::string choose_address(std::span<const InterfaceAddress> addresses, const Environment& env,
                           std::span<const std::string> profile_interfaces) {
  if (const auto names = read_interface_names(env)) {
    return names->excludes ? choose_not_excluded(addresses, *names) : choose_named(addresses, *names);
  }
  for (const auto& prefix : profile_interfaces) {
    const auto fits = [&](const auto& each) { return !prefix.empty() && each.interface.starts_with(prefix); };
    if (const auto found = first_address(addresses, fits)) return *found;
  }
  if (const auto found = first_reachable(addresses)) return *found;
  return first_address(addresses, [](const auto& each) { return is_loopback(each.address); }).value_or(kLoopback);
}

std::string own_address(const Placement& at, const Environment& env, std::span<const std::string> profile_interfaces) {
  const auto names = read_interface_names(env);
  if (at.nodes == 1 && (!names || names->excludes)) return kLoopback;
  return choose_address(list_addresses(), env, profile_interfaces);
}

}  // namespace lockstep
