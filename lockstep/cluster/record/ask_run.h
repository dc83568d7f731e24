// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace lockstep {

/// The longest time until a training sees a request. It looks each second, but NFS may show a new file only after its
/// attribute cache's time, by default at most 60 s (man 5 nfs, acdirmax).
inline constexpr std::chrono::seconds kSeenWithin{75};

/// Asks the training in a run's folder to stop, with a snapshot. Returns true once it has seen that. If it has not
/// within `patience`, takes the request back and returns false.
/// Blocks: for at most `patience`. Throws: Error(kIo).
bool ask_to_stop(const std::filesystem::path& run_dir, std::chrono::milliseconds patience = kSeenWithin);

/// Asks the training in a run's folder for a snapshot, and waits until it is whole on disk.
///
/// Returns the answer, with "step" and "snapshot".
/// Blocks: for at most `patience` after the request was seen.
/// Throws: Error(kEnvironment) if no training runs there, if it has refused, or if the time is over; Error(kIo).
nlohmann::json snapshot_now(const std::filesystem::path& run_dir, std::chrono::milliseconds patience);

/// Asks what each rank of a run does, and who holds up the others. Returns the answer (docs/formats/run-folder.md).
/// Blocks: for at most `patience`.
/// Throws: Error(kEnvironment) if nobody answers; Error(kIo).
nlohmann::json ask_why(const std::filesystem::path& run_dir, std::chrono::milliseconds patience = kSeenWithin);

}  // namespace lockstep
