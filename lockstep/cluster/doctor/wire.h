// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "lockstep/base/file.h"
#include "lockstep/launch/socket.h"

namespace lockstep {

// The messages of doctor's tasks. Everything here throws Error(kPeer) once `until` has passed.

/// Sends the message's length, four bytes in network order, then its JSON.
void send_message(const FileDescriptor& to, const nlohmann::json& message, Deadline until);

/// Receives the next message.
///
/// Throws: also Error(kPeer) if the other end closed the connection, or sent data that is not a message or is longer
/// than 4 MiB.
nlohmann::json received_message(const FileDescriptor& from, Deadline until);

/// Sends all of `out` to `next` while it fills `in` from `prev`.
///
/// Returns the seconds from the first byte received to the last.
double exchange(const FileDescriptor& next, std::span<const std::byte> out, const FileDescriptor& prev,
                std::span<std::byte> in, Deadline until);

}  // namespace lockstep
