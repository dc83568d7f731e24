// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace lockstep {

/// A Gloo group whose collectives can be ended from another thread.
///
/// Gloo's own abort() does nothing, and its time limit is the same for a rank that is slow and one that is dead.
class BreakableGloo final : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;

  /// True if this LibTorch has the functions for break_connections(), and Gloo uses plain TCP.
  static bool is_possible();

  /// Closes the connections to all peers. Each collective that waits on one of them throws, with `why` in its message.
  ///
  /// Threads: any thread, but not while another thread destroys this object.
  void break_connections(const std::string& why);

  /// Sets the time limit of later collectives. The constructor's limit also holds for connecting.
  void limit_collectives(std::chrono::milliseconds limit);
};

}  // namespace lockstep
