// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/store/connections.h"

namespace lockstep {

/// The store that this process has joined, in which ranks find each other.
struct JoinedStore {
  c10::intrusive_ptr<c10d::Store> store{};
  std::shared_ptr<StoreConnections> connections{};  ///< To our own store. Null for one of c10d's.
  std::string own_address{};                        ///< This node's, towards the server.
  int joins = 0;                    ///< Number of times that this process has joined it, this time included.
  std::shared_ptr<void> meeting{};  ///< Hold it until all ranks have joined. The published files are removed with it.
};

/// Joins the run's own store, which only its ranks may enter. Rank 0 serves it, unless the launcher does.
///
/// The secret is in LOCKSTEP_MEETING, a folder that our launcher and `exec` name. If the variable is unset, the secret
/// is beside the file in which rank 0 publishes its address. If torchrun's agent serves a store, or the environment
/// gives only MASTER_ADDR, ranks share no secret. They then use c10d's TCPStore, and rank 0 warns once what that means.
///
/// A later call in the same process returns the same store, since some things that a launcher provides, such as a bound
/// port, can be used only once.
///
/// Collective: yes. Blocks: until the store serves, for `timeout` at most.
/// Throws: Error(kEnvironment) if nothing gives rank 0's address, or if others may read the secret's file; Error(kIo)
///         if that file cannot be written; Error(kPeer) if rank 0 does not arrive, or if another run's store is found.
JoinedStore join_store(const Placement& placement, const Environment& env, const std::filesystem::path& run_dir,
                       std::chrono::milliseconds timeout);

}  // namespace lockstep
