// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/base/file.h"
#include "lockstep/launch/placement.h"

namespace lockstep {

/// The numeric address that this node's ranks should be reached at: loopback where all ranks are on one node, else that
/// of the interface named by LOCKSTEP_INTERFACE, GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME (the first of a list), else
/// of the first interface that is up and is neither loopback nor one that containers make (loopback where there is no
/// other: then all nodes are one machine). NCCL's names may be the first letters of one, as NCCL takes them.
///
/// Throws: Error(kEnvironment) where a named interface has no address: those that have one are listed.
std::string own_address(const Environment& env, const Placement& placement);

/// The number that this node's system has for `address`, which may be a name; nothing where it knows none.
std::optional<std::string> numeric_address(const std::string& address);

/// A TCP socket bound to `address` and a port of the system's choice (or `port`), not yet listening.
///
/// Throws: Error(kEnvironment) where the address is not ours or the port is taken.
FileDescriptor bound_socket(const std::string& address, int port = 0);

/// Connects to `peer` and tells the local address that the system chose for it, or nothing where nobody listens there.
///
/// Blocks: for at most `patience`.
std::optional<std::string> address_towards(const Endpoint& peer, std::chrono::milliseconds patience);

}  // namespace lockstep
