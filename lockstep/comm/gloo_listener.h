// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

namespace lockstep {

/// Returns the numbers of this process's listening sockets.
std::set<int> listening_sockets();

/// The listening socket that Gloo makes for a device, from the moment before to when all ranks are connected.
///
/// Gloo leaves it open for the device's life, and keeps a descriptor for each stranger that connects; at the limit of
/// descriptors it ends the process. Nobody needs it once all ranks are connected to this one.
class GlooListener {
 public:
  /// To be made right before the device.
  GlooListener() : before_(listening_sockets()) {}

  /// To be called right after the device is made: finds its socket.
  void find();

  /// To be called when this rank is connected to all others: the port closes. Gloo closes the number itself later.
  void refuse_strangers();

 private:
  std::set<int> before_;
  std::set<int> found_;
};

}  // namespace lockstep
