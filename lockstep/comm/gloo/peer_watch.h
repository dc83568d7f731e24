// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

namespace lockstep {

/// Notices that a rank's process has ended while this rank waits for its device, which need not notice. A process that
/// is killed closes its connections to the others. A node that loses its power closes none.
///
/// Only sources in comm/ use it.
///
/// Threads: one at a time.
class PeerWatch {
 public:
  /// `gloo` must outlive this object. Collective: yes, for the ranks of `gloo`. Blocks: no.
  explicit PeerWatch(c10d::Backend& gloo);

  /// Returns a neighbour whose connection has closed, unless it has called end_well() before. Never waits.
  std::optional<int> find_lost();

  /// Tells the neighbours that this rank ends and has not failed.
  void end_well() noexcept;

 private:
  using Work = c10::intrusive_ptr<c10d::Work>;

  c10d::Backend& gloo_;
  std::vector<std::pair<int, Work>> waits_;
  std::vector<Work> sent_;
};

/// Returns the ranks that `rank` watches: its parent and its children in a binary tree of all ranks. Each of them
/// watches `rank`, too. So a loss is known to all ranks after as many steps as the tree is high, even if each only
/// closes its own connections.
std::vector<int> watched_by(int rank, int world);

}  // namespace lockstep
