// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "lockstep/observe/process_identity.h"
#include "lockstep/observe/run_lock.h"

namespace lockstep {

/// Takes the right to write into a snapshot folder, for as long as the returned object lives. The returned object is
/// null if this process has that right already, as `lockstep train` does.
///
/// The lock is `run.lock` in the run folder if the folder is a run's `snapshots/`, else `run.lock` in the folder
/// itself. So programs and `lockstep train` exclude each other. Only rank 0's process calls it.
///
/// Throws: Error(kEnvironment) naming the holder if another live process writes there; Error(kIo) if the lock's file
/// cannot be written. It also clears what other writers left, as clear_left_overs().
std::unique_ptr<RunLock> lock_snapshots(const std::filesystem::path& snapshots, const ProcessIdentity& self);

/// Removes unfinished files of other writers in `snapshots`, of any host. The holder of the lock knows that none of
/// them is alive. If the lock was taken from a process that may still live on another host, only files that are surely
/// stale are removed. Call it before the first write.
void clear_left_overs(const std::filesystem::path& snapshots, const RunLock& lock);

}  // namespace lockstep
