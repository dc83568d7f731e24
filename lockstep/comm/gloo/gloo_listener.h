// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

namespace lockstep {

/// Returns the numbers of this process's listening sockets.
std::set<int> listening_sockets();

/// The listening socket that Gloo makes for a device, from the moment before to when all ranks are connected.
///
/// Gloo's listening socket. Gloo keeps it open for the device's life, and keeps a descriptor for each stranger that
/// connects. At the limit of descriptors it ends the process. Nobody needs the socket once all ranks are connected to
/// this one.
class GlooListener {
 public:
  /// To be made right before the device.
  GlooListener() : before_(listening_sockets()) {}

  /// Call it right after the device is made. It finds the device's socket.
  void find();

  /// Call it when this rank is connected to all others. It closes the port. Gloo closes the number itself later.
  void refuse_strangers();

 private:
  std::set<int> before_;
  std::set<int> found_;
};

}  // namespace lockstep
