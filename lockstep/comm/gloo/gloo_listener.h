// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

namespace lockstep {

/// Returns the descriptors of this process's listening sockets.
std::set<int> listening_sockets();

/// The listening socket that Gloo makes for a device, from the moment before to when all ranks are connected.
///
/// Gloo keeps the socket open for the device's life, and keeps a descriptor for each stranger that connects. At the
/// limit of descriptors Gloo ends the process. Nobody needs the socket once all ranks are connected to this rank.
class GlooListener {
 public:
  /// Construct this right before the device is made.
  GlooListener() : before_(listening_sockets()) {}

  /// Finds the device's listening socket. Call it right after the device is made.
  void find();

  /// Closes the port. Call it when this rank is connected to all others. Gloo itself closes the descriptor later.
  void refuse_strangers();

 private:
  std::set<int> before_;
  std::set<int> found_;
};

}  // namespace lockstep
