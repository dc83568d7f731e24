// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/base/file.h"
#include "lockstep/launch/placement.h"

namespace lockstep {

// Plain TCP with an end: everything here throws Error(kPeer) once `until` has passed.
using Deadline = Clock::time_point;

/// A socket that listens on this port of every address; 0 takes a free one.
///
/// Throws: Error(kEnvironment) where the port is taken.
FileDescriptor listening_socket(int port);

/// The next connection, or an empty one where `until` passed first.
FileDescriptor accepted(const FileDescriptor& listener, Deadline until);

/// A connection to `to`, tried again until there is one.
FileDescriptor connected(const Endpoint& to, Deadline until);

/// The numeric address of the other end.
std::string peer_address(const FileDescriptor& socket);

/// A length of four bytes, then JSON.
void send_message(const FileDescriptor& to, const nlohmann::json& message, Deadline until);

/// Throws: also Error(kPeer) where the other end left, or sent what is no message or one beyond 4 MiB.
nlohmann::json received_message(const FileDescriptor& from, Deadline until);

/// Sends all of `out` to `next` while it fills `in` from `prev`.
///
/// Returns: seconds from the first byte that came to the last.
double exchange(const FileDescriptor& next, std::span<const std::byte> out, const FileDescriptor& prev,
                std::span<std::byte> in, Deadline until);

}  // namespace lockstep
