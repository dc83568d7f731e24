// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "lockstep/comm/gloo/breakable_gloo.h"
#include "lockstep/comm/gloo/endable_works.h"
#include "lockstep/launch/placement/placement.h"

namespace lockstep {

struct MeshLimits {
  std::chrono::milliseconds arrive{};      ///< Time limit until all ranks have arrived.
  std::chrono::milliseconds connect{};     ///< Time limit for each connection to another rank.
  std::chrono::milliseconds collective{};  ///< Time limit of one collective.
};

struct MeshRequest {
  c10::intrusive_ptr<c10d::Store>
      store;  ///< The store by which ranks find each other. Its keys are for this meeting only.
  const Placement& placement;
  std::string own_address;  ///< The address that this rank listens on.
  MeshLimits limits;
  std::function<bool()> is_stopping{};  ///< True once the process was asked to stop. May be empty.
  bool is_endable = false;              ///< Another thread may end the collectives.
};

/// All ranks, each connected to every other rank through Gloo.
struct Mesh {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<BreakableGloo> gloo;  ///< The backend of `group`.
  std::shared_ptr<EndableWorks> works;     ///< Of `group`, if it is endable. Otherwise null.
};

/// Connects this rank with all others. Only sources in comm/ call it.
///
/// Collective: yes. Blocks: until every rank is connected to every other one.
/// Throws: Error(kPeer) naming the ranks that did not arrive; c10d's and Gloo's exceptions.
Mesh connect_mesh(const MeshRequest& request);

}  // namespace lockstep
