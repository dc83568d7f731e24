// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace lockstep {

/// The longest time until a training sees a request. A training looks every second. But on NFS a new file may appear
/// only after the time of the attribute cache, by default at most 60 s (man 5 nfs, acdirmax).
inline constexpr std::chrono::seconds kSeenWithin{75};

/// Asks the training in a run's folder to stop, with a snapshot. Returns true once the training has seen the request.
/// If it has not seen it within `patience`, the request is removed, and false is returned.
/// Blocks: for at most `patience`. Throws: Error(kIo) if the request cannot be written.
bool ask_to_stop(const std::filesystem::path& run_dir, std::chrono::milliseconds patience = kSeenWithin);

/// Asks the training in a run's folder for a snapshot, and waits until the snapshot is complete on disk.
///
/// Returns the answer, with "step" and "snapshot".
/// Blocks: for at most `patience` after the request was seen.
/// Throws: Error(kEnvironment) if no training runs there, if the training refuses, or if the time is over; Error(kIo)
///         if the request cannot be written.
nlohmann::json snapshot_now(const std::filesystem::path& run_dir, std::chrono::milliseconds patience);

/// Asks what each rank of a run does, and who holds up the others. Returns the answer (docs/formats/run-folder.md).
/// Blocks: for at most `patience`.
/// Throws: Error(kEnvironment) if nobody answers; Error(kIo) if the request cannot be written.
nlohmann::json ask_why(const std::filesystem::path& run_dir, std::chrono::milliseconds patience = kSeenWithin);

}  // namespace lockstep
