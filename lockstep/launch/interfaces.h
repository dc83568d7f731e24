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
/// are useless without the interface's scope.
std::vector<InterfaceAddress> list_addresses();

/// True if an interface of this name belongs to containers on this node. No other node can be reached through it.
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

/// Parses LOCKSTEP_INTERFACE, GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME. They hold names with commas between them. A "^"
/// in front excludes the interfaces. In NCCL's variable a name is a prefix, unless a "=" in front makes it exact. In
/// the other variables a name is always exact. A name in NCCL's variable may end with ":PORT", which is dropped.
/// Returns nullopt if the variable names nothing.
///
/// Source: NCCL's user guide, "NCCL_SOCKET_IFNAME".
std::optional<InterfaceNames> read_interface_names(const std::string& variable, const Environment& env);

/// Returns the choice of the first of LOCKSTEP_INTERFACE, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME that is set.
std::optional<InterfaceNames> read_interface_names(const Environment& env);

/// Chooses the address at which other nodes reach this one, out of `addresses`:
///
/// 1. If a variable names interfaces, the first one in its list that has an address. If the variable excludes
///    interfaces, rule 3 chooses among the rest.
/// 2. Else the first interface with an address whose name begins with one of `profile_interfaces`.
/// 3. Else the first address that belongs to neither loopback nor a container. Loopback if there is no other address.
///
/// If the interface has several addresses, an IPv4 address is preferred.
///
/// Throws: Error(kEnvironment) if a variable names no interface that has an address, or leaves none; the message lists
///         those that have one.
std::string choose_address(std::span<const InterfaceAddress> addresses, const Environment& env,
                           std::span<const std::string> profile_interfaces = {});

/// Chooses this node's address by choose_address(). If all ranks are on one node and no variable names an interface,
/// the address is 127.0.0.1.
///
/// Throws: as choose_address().
std::string own_address(const Placement& at, const Environment& env,
                        std::span<const std::string> profile_interfaces = {});

}  // namespace lockstep
