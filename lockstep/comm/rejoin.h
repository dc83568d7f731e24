// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/comm/gloo/mesh.h"
#include "lockstep/store/connections.h"
#include "lockstep/store/generation_watch.h"

namespace lockstep {

/// Lets a rank leave the others, and connect to them again after one of them died. Only sources in comm/ use it.
///
/// A run has generations, which the store counts. The parent that starts a dead rank again raises the generation. A
/// thread of each rank waits for that, and then breaks all connections of the rank. So its training thread leaves the
/// collective in which it waits.
class Rejoin {
 public:
  /// `ended` is the newest generation that is known to be over. 0 for none.
  Rejoin(std::shared_ptr<StoreConnections> connections, std::string own_address, const MeshLimits& limits,
         std::uint32_t ended = 0);
  ~Rejoin();
  Rejoin(const Rejoin&) = delete;
  Rejoin& operator=(const Rejoin&) = delete;

  /// Call it when this rank is connected in a generation. From then on its connections break when the generation ends.
  void enter(std::uint32_t generation, int rank, const Mesh& mesh);
  /// True once the generation that was entered last has ended. A rank that waits for its device looks here, since the
  /// device does not notice.
  bool is_over() const { return is_over_; }
  /// Breaks this rank's connections, so that the others leave too. Call it before the group is destroyed.
  void leave();

  /// Waits for a generation after the one that this rank was in, and returns it with its store.
  ///
  /// Blocks: until it begins, for some seconds at most.
  /// Throws: Error(kPeer) if no generation begins, or if this process is asked to stop meanwhile.
  std::uint32_t next_generation(bool may_raise);
  c10::intrusive_ptr<c10d::Store> store_for(std::uint32_t generation) const;

  const MeshLimits& limits() const { return limits_; }
  const std::string& own_address() const { return own_address_; }

 private:
  std::uint32_t current() const;
  bool has_training_ended() const;
  void break_connections(const std::string& why);

  std::shared_ptr<StoreConnections> connections_;
  std::string own_address_;
  MeshLimits limits_;
  std::atomic<bool> is_over_ = false;
  std::uint32_t generation_;  ///< The generation that this rank is in, or was in last.
  std::mutex mutex_;          ///< Guards gloo_ and works_ against the thread of watch_.
  c10::intrusive_ptr<BreakableGloo> gloo_;
  std::shared_ptr<EndableWorks> works_;
  std::unique_ptr<GenerationWatch> watch_;
};

}  // namespace lockstep
