// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

namespace lockstep {

/// A neighbour that has not ended well.
struct LostPeer {
  int rank = 0;
  std::string reason{};  ///< What it gave to leave(). Empty if its connection has closed without a word.
};

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

  /// Returns a neighbour that has left, or whose connection has closed, unless it has called end_well() before. Never
  /// waits.
  std::optional<LostPeer> find_lost();

  /// Tells the neighbours that this rank ends and has not failed.
  void end_well() noexcept;

  /// Tells the neighbours why this rank ends, such as that another rank is lost. So they know it even if this process
  /// and the store's server have ended before they look. Of more than 255 bytes the rest is left out. Only the first
  /// call counts.
  void leave(const std::string& reason) noexcept;

 private:
  using Work = c10::intrusive_ptr<c10d::Work>;

  struct Wait {
    int peer = 0;
    at::Tensor message;
    Work work;
    bool has_come = false;
  };

  void send(const std::string& reason) noexcept;

  c10d::Backend& gloo_;
  std::vector<Wait> waits_;
  std::vector<Work> sent_;
};

/// Returns the ranks that `rank` watches: its parent and its children in a binary tree of all ranks. Each of them
/// watches `rank`, too. So a loss is known to all ranks after as many steps as the tree is high, even if each only
/// closes its own connections.
std::vector<int> watched_by(int rank, int world);

/// Returns the ranks whose connections to this rank have closed. Meant for the moment when a collective has failed,
/// since it keeps a message's buffer for each other rank. Blocks: no.
std::vector<int> closed_connections(c10d::Backend& gloo);

}  // namespace lockstep
