// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Names within a `snapshots/` folder. docs/snapshot-format.md tells what each is for.

inline constexpr std::string_view kLatestName = "latest";
inline constexpr std::string_view kBestName = "best";
inline constexpr std::string_view kRunIdName = "run-id";

/// In a snapshot: what goes along with the model, and what the average of a parameter or buffer is named there, before
/// its own name. "average.count" tells how many weights are in it, "average.kind" whether they are of EMA (1) or SWA
/// (0). "average.lacks_statistics" is there if the run was stopped before SWA's BatchNorm statistics were taken.
inline constexpr const char* kExtensionsFile = "extensions.safetensors";
inline const std::string kAveragePrefix = "average.";

/// "step-0000000420"
std::string snapshot_name(std::int64_t step);

/// What a name in `snapshots/` says: the step, and whether it is the ".old" one that was being replaced.
struct SnapshotName {
  std::int64_t step = 0;
  bool is_old = false;
};

/// Nothing where `name` is no snapshot's.
std::optional<SnapshotName> parsed_snapshot_name(std::string_view name);

/// ".tmp-HOST-PID.PURPOSE" of this process: what no reader looks at, and who to ask whether it is still wanted.
std::string temporary_name(std::string_view purpose);

/// Removes what dead writers left in `snapshots`: temporary names of processes of this host that are gone, of this
/// process itself, and of other hosts where nothing in it has changed for an hour.
void remove_stale_temporaries(const std::filesystem::path& snapshots);

/// Removes all temporary names, of other hosts and of live processes too. For who holds the run's lock, before its
/// first write: nobody else writes there.
void remove_all_temporaries(const std::filesystem::path& snapshots);

/// Removes a snapshot. Renamed first: a reader sees it whole or not at all, also where this process dies within.
///
/// Throws: Error(kIo) where the rename is refused.
void remove_snapshot(const std::filesystem::path& snapshot);

}  // namespace lockstep
