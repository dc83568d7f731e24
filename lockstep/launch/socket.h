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

/// Formats an address, as "10.0.0.1" or "fe80::1". Returns nullopt for a null pointer, or if the family is neither IPv4
/// nor IPv6.
std::optional<std::string> numeric_text(const sockaddr* address);

/// True if this numeric address leads back to the node that uses it.
bool is_loopback(const std::string& address);

/// Returns the numeric addresses of a host, in the resolver's order. Empty if the name does not resolve. A numeric
/// address resolves to itself, without a look-up.
std::vector<std::string> resolve_host(const std::string& host);

/// Binds a TCP socket to `address` and `port`. For port 0 the system chooses a free port. The socket does not listen
/// yet.
///
/// Throws: Error(kEnvironment) if the address is not this node's or the port is taken.
FileDescriptor bind_socket(const std::string& address, int port = 0);

/// Binds a TCP socket to `port` of all of this node's addresses. For port 0 the system chooses a free port. Returns an
/// empty descriptor, with errno set, if the port cannot be bound.
FileDescriptor bind_all_addresses(int port);

/// Returns the port that a socket is bound to.
int port_of(const FileDescriptor& socket);

/// True if a program can listen on this port now, on all of this node's addresses.
bool is_free(int port);

/// Listens on `port` of all of this node's addresses. Port 0 takes a free port. The returned socket is non-blocking.
///
/// Throws: Error(kEnvironment) if the port is taken.
FileDescriptor listen_on(int port);

/// Waits until `socket` has one of the poll(2) `events`. Returns false if the time `until` comes first.
bool await_ready(const FileDescriptor& socket, short events, Deadline until);

/// Returns the time left until `until`, for poll(2).
///
/// Units: milliseconds, at most a minute.
int milliseconds_left(Deadline until);

/// Accepts the next connection, as a non-blocking socket. Returns an empty descriptor if the time `until` comes first.
///
/// Blocks: until `until` at most.
FileDescriptor accept_connection(const FileDescriptor& listener, Deadline until);

/// Connects to `peer`, and tries again until somebody listens there. The returned socket is non-blocking.
///
/// Blocks: until `until` at most.
/// Throws: Error(kPeer) if the address does not resolve, or if the time `until` comes first.
FileDescriptor connect_until(const Endpoint& peer, Deadline until);

/// Makes one attempt to connect to `peer`. The returned socket is non-blocking. Returns an empty descriptor if nobody
/// listens there.
///
/// Blocks: until `until` at most.
FileDescriptor connect_once(const Endpoint& peer, Deadline until);

/// Returns the numeric address of this end of a connection. Empty if the socket has none.
std::string local_address(const FileDescriptor& socket);

/// Connects to `peer` once and returns the local address that the system chose for it. nullopt if nobody listens there.
///
/// Blocks: for `timeout` at most.
std::optional<std::string> local_address_towards(const Endpoint& peer, std::chrono::milliseconds timeout);

/// Returns the numeric address of the other end of a connection. Empty if the socket has none.
std::string peer_address(const FileDescriptor& socket);

}  // namespace lockstep
