// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>

#include "lockstep/base/environment.h"
#include "lockstep/comm/group.h"

namespace lockstep {

struct JoinOptions {
  std::chrono::milliseconds join_timeout{std::chrono::minutes(5)};         ///< Until every rank has arrived.
  std::chrono::milliseconds collective_timeout{std::chrono::minutes(30)};  ///< Of one collective.
  /// What this rank computes on. A loop of one's own that stays on the CPU leaves it; Group::device() says what was
  /// found.
  Accelerator accelerator = Accelerator::kCpu;
  bool connect_single_rank = false;  ///< A single rank makes a group, too, whose collectives it has with itself.
  bool share_device = false;  ///< Several ranks may compute on one device; their tensors then travel through Gloo.
  /// If no launcher gives rank 0's address, ranks find it through a file in `.meeting/` of this folder, which all nodes
  /// must see. Empty: $LOCKSTEP_RUNS, else runs/.
  std::filesystem::path run_dir{};
};

/// This process's placement, and a group of all ranks of the run.
///
/// Rank 0 binds a port first, then publishes its address: through its launcher, or as a file that it removes once all
/// have met, with its folder if that is empty. Nothing is looked up by name. May be called again in the same process,
/// by all ranks. With several ranks SIGPIPE is ignored from here on, unless it has a handler: a lost peer is an error,
/// not our end.
///
/// Collective: yes. Blocks: until every rank has arrived.
/// Throws: Error(kEnvironment) for a placement that cannot be right, a device that cannot be used or that two ranks
///         have, a named interface that has no address, or if there is no way to meet; Error(kPeer) naming the ranks
///         that did not arrive, their hosts where known, and the time waited.
Group join(const JoinOptions& options = {});

/// The same with a placement and an environment that are known already.
Group join(const Placement& placement, const Environment& env, const JoinOptions& options = {});

/// One rank without company on a device that is ready. Collective: no.
Group alone(RankDevice device = {});

}  // namespace lockstep
