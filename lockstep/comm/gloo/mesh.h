// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "lockstep/comm/gloo/breakable_gloo.h"
#include "lockstep/launch/placement/placement.h"

namespace lockstep {

struct MeshLimits {
  std::chrono::milliseconds arrive{};      ///< For all ranks to come.
  std::chrono::milliseconds connect{};     ///< For each connection to another rank.
  std::chrono::milliseconds collective{};  ///< For one collective.
};

struct MeshRequest {
  c10::intrusive_ptr<c10d::Store> store;  ///< Where ranks find each other. Its keys are of this meeting alone.
  const Placement& placement;
  std::string own_address;  ///< The address that this rank listens on.
  MeshLimits limits;
};

/// All ranks, each connected to each other one through Gloo.
struct Mesh {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<BreakableGloo> gloo;  ///< The backend of `group`.
};

/// Connects this rank with all others. For sources of comm/ only.
///
/// Collective: yes. Blocks: until every rank is connected to every other one.
/// Throws: Error(kPeer) naming the ranks that did not arrive; c10d's and Gloo's exceptions.
Mesh connect_mesh(const MeshRequest& request);

}  // namespace lockstep
