// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/base/file.h"
#include "lockstep/launch/placement/placement.h"

struct sockaddr;

namespace lockstep {

using Deadline = Clock::time_point;

/// Returns "10.0.0.1" or "fe80::1". nullopt for null, and if the family is neither IPv4 nor IPv6.
std::optional<std::string> numeric_text(const sockaddr* address);

/// True if this numeric address leads back to the node that uses it.
bool is_loopback(const std::string& address);

/// Returns the numeric addresses of a host, in the resolver's order. Empty if it does not resolve. A numeric address
/// resolves to itself, without a look-up.
std::vector<std::string> resolve_host(const std::string& host);

/// Binds a TCP socket to `address` and `port`. Port 0 takes a free port. The socket does not listen yet.
///
/// Throws: Error(kEnvironment) if the address is not this node's or the port is taken.
FileDescriptor bind_socket(const std::string& address, int port = 0);

/// Binds a TCP socket to `port` of all of this node's addresses. Port 0 takes a free port. Returns an empty descriptor,
/// with errno set, if that fails.
FileDescriptor bind_all_addresses(int port);

/// Returns the port that a socket is bound to.
int port_of(const FileDescriptor& socket);

/// True if a program may listen on this port of all of this node's addresses now.
bool is_free(int port);

/// Listens on `port` of all of this node's addresses. Port 0 takes a free port. The socket does not block.
///
/// Throws: Error(kEnvironment) if the port is taken.
FileDescriptor listen_on(int port);

/// Waits until `socket` has one of the poll(2) `events`. False if `until` passes first.
bool await_ready(const FileDescriptor& socket, short events, Deadline until);

/// Returns the time left until `until`, for poll(2).
///
/// Units: milliseconds, at most a minute.
int milliseconds_left(Deadline until);

/// Accepts the next connection, as a socket that does not block. Returns an empty descriptor if `until` passes first.
///
/// Blocks: until `until` at most.
FileDescriptor accept_connection(const FileDescriptor& listener, Deadline until);

/// Connects to `peer`, and tries again until somebody listens there. The socket does not block.
///
/// Blocks: until `until` at most.
/// Throws: Error(kPeer) if the address does not resolve, or if `until` passes first.
FileDescriptor connect_until(const Endpoint& peer, Deadline until);

/// Connects to `peer` once. The socket does not block. Returns an empty descriptor if nobody listens there.
///
/// Blocks: until `until` at most.
FileDescriptor connect_once(const Endpoint& peer, Deadline until);

/// Returns the numeric address of a connection's own end. Empty if there is none.
std::string local_address(const FileDescriptor& socket);

/// Connects to `peer` once and returns the local address that the system chose for it. nullopt if nobody listens there.
///
/// Blocks: for `timeout` at most.
std::optional<std::string> local_address_towards(const Endpoint& peer, std::chrono::milliseconds timeout);

/// Returns the numeric address of a connection's other end. Empty if there is none.
std::string peer_address(const FileDescriptor& socket);

}  // namespace lockstep
