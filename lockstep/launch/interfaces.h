// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"

namespace lockstep {

/// One address of one of this node's network interfaces.
struct InterfaceAddress {
  std::string interface {};  ///< "ib0"
  std::string address{};     ///< Numeric.
  bool is_ipv6 = false;
};

/// Lists the addresses of all interfaces that are up, IPv4 first. IPv6 link-local addresses are left out, since they
/// mean nothing without a scope.
std::vector<InterfaceAddress> list_addresses();

/// True if containers make interfaces of this name, through which no other node can be reached.
bool is_for_containers(const std::string& interface);

/// The interfaces that a variable names, or excludes.
struct InterfaceNames {
  std::string variable{};
  std::string value{};
  std::vector<std::string> names{};  ///< Without marks, never empty.
  bool is_exact = true;              ///< False if each name stands for all interfaces that begin with it.
  bool excludes = false;             ///< True if all interfaces but these may be used.

  /// True if `name`, one of `names`, stands for this interface.
  bool matches(const std::string& name, const std::string& interface) const;
  bool contains(const std::string& interface) const;
};

/// Parses LOCKSTEP_INTERFACE, GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME. They hold names with commas between them. A "="
/// in front means exact names, a "^" excludes them. Names are exact, except that NCCL's are prefixes unless "=" is
/// given. NCCL's may end with ":PORT", which is dropped. Returns nullopt if the variable names nothing.
///
/// Source: NCCL's user guide, "NCCL_SOCKET_IFNAME".
std::optional<InterfaceNames> read_interface_names(const std::string& variable, const Environment& env);

/// The first of LOCKSTEP_INTERFACE, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME that names something.
std::optional<InterfaceNames> read_interface_names(const Environment& env);

/// Chooses the address at which other nodes reach this one, out of `addresses`:
///
/// 1. If a variable names interfaces, the first of its list that has an address. If it excludes some, rule 3 decides
///    among the rest.
/// 2. Else the first of `profile_interfaces`, prefixes, that has an address.
/// 3. Else the first address that is neither loopback nor a container's. Loopback if there is no other.
///
/// Of one interface's addresses, IPv4 comes first.
///
/// Throws: Error(kEnvironment) if a variable names no interface that has an address, or leaves none; the message lists
///         those that have one.
std::string choose_address(std::span<const InterfaceAddress> addresses, const Environment& env,
                           std::span<const std::string> profile_interfaces = {});

/// Chooses this node's address by choose_address(). If all ranks are on one node and no variable names an interface, it
/// is 127.0.0.1.
///
/// Throws: as choose_address().
std::string own_address(const Placement& at, const Environment& env,
                        std::span<const std::string> profile_interfaces = {});

}  // namespace lockstep
