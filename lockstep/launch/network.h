// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/file.h"

struct sockaddr;

namespace lockstep {

/// An address of one of this node's network interfaces.
struct InterfaceAddress {
  std::string interface {};  ///< "ib0"
  std::string address{};     ///< Numeric.
  bool is_ipv6 = false;
};

/// Those of interfaces that are up, IPv4 first. Link-local ones of IPv6 are left out: they mean nothing without a
/// scope.
std::vector<InterfaceAddress> addresses_here();

/// All that `host` resolves to, numeric, as the resolver orders them; none where it does not.
std::vector<std::string> addresses_of_host(const std::string& host);

/// "10.0.0.1", "fe80::1"; nothing for null and for what is no address of the internet's.
std::optional<std::string> numeric_text(const sockaddr* address);

/// A claim: this numeric address leads to the node that uses it.
bool is_loopback(const std::string& address);

/// A claim: an interface of this name is there for containers, and no other node can be reached by it.
bool is_for_containers(const std::string& interface);

/// A socket bound to `port` of all of this node's addresses, 0 for one of the system's choice; empty, with errno set,
/// where that cannot be.
FileDescriptor bound_everywhere(int port);

/// The port that a bound socket has.
int port_of(const FileDescriptor& socket);

/// Whether a program may listen on this port of all of this node's addresses now.
bool is_free(int port);

}  // namespace lockstep
