// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Joins the other ranks of a run. This is the first call of a program with its own loop.
///
///     auto world = lockstep::join({.accelerator = lockstep::Accelerator::kAuto});
///     net->to(world.device().device);
///     std::cout << "rank " << world.rank() << " of " << world.world() << "\n";

#include <chrono>
#include <filesystem>

#include "lockstep/base/environment.h"
#include "lockstep/comm/group.h"

namespace lockstep {

struct JoinOptions {
  std::chrono::milliseconds join_timeout{std::chrono::minutes(5)};         ///< Longest wait for all ranks to arrive.
  std::chrono::milliseconds collective_timeout{std::chrono::minutes(30)};  ///< Longest time of one collective.
  /// The kind of device that this rank computes on. Group::device() returns the device found.
  Accelerator accelerator = Accelerator::kCpu;
  bool connect_single_rank = false;  ///< A single rank, too, opens a group and runs its collectives with itself.
  bool share_device = false;  ///< True if several ranks may compute on one device. Their tensors are then sent through
                              ///< Gloo.
  /// If no launcher gives rank 0's address, ranks find it through a file in `.meeting/` of this folder, which all nodes
  /// must see. If the path is empty, the folder is $LOCKSTEP_RUNS, or else runs/.
  std::filesystem::path run_dir{};
};

/// Reads this process's placement and connects all ranks of the run.
///
/// Rank 0 binds a port first, and then publishes its address through its launcher or as a file. Once all ranks have
/// joined, rank 0 removes the file, and the file's folder if that is empty. No host name is looked up. All ranks may
/// call it again in the same process. With several ranks SIGPIPE is ignored from here on, unless it has a handler, so a
/// lost peer is an error and does not end the process.
///
/// Collective: yes. Blocks: until every rank has arrived.
/// Throws: Error(kEnvironment) for a placement that cannot be right, a device that cannot be used or that two ranks
///         have, or a named interface that has no address, or if no variable, file or launcher gives rank 0's address;
///         Error(kPeer) naming the ranks that did not arrive, their hosts if known, and the time waited.
Group join(const JoinOptions& options = {});

/// Connects all ranks as join() does, with a placement and an environment that are known already.
Group join(const Placement& placement, const Environment& env, const JoinOptions& options = {});

/// Returns a group of this rank alone, on a device that is ready. Collective: no.
Group alone(RankDevice device = {});

}  // namespace lockstep
