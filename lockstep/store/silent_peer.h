// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Has the system ask the other end of an idle TCP connection for a sign of life.
///
/// A node that was switched off closes no connection. After 30 s without a sign the connection ends with an error for
/// which is_silence() is true. Linux's own default is two hours.
void find_silent_peer(int socket);

/// True if `error`, a value of errno, means that the other end has fallen silent. It has not closed the connection.
bool is_silence(int error);

}  // namespace lockstep
