// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

/// Names within a `snapshots/` folder. docs/formats/snapshot-format.md explains each.

inline constexpr std::string_view kLatestName = "latest";
inline constexpr std::string_view kBestName = "best";
inline constexpr std::string_view kRunIdName = "run-id";

/// The file with the numbers of a training, as JSON.
inline constexpr const char* kStateFile = "state.json";

/// Files beside the model in a snapshot. An averaged parameter or buffer has the prefix "average.". "average.count" is
/// the number of weights in it, and "average.kind" is 1 for EMA and 0 for SWA. "average.lacks_statistics" is there if
/// the run was stopped before SWA's BatchNorm statistics were taken.
inline constexpr const char* kExtensionsFile = "extensions.safetensors";
inline const std::string kAveragePrefix = "average.";

/// "step-0000000420"
std::string snapshot_name(std::int64_t step);

/// The parts of a name in `snapshots/`, the step and whether it is the ".old" one that was being replaced.
struct SnapshotName {
  std::int64_t step = 0;
  bool is_old = false;
};

/// Parses the name of a snapshot. Returns nothing if `name` is not one.
std::optional<SnapshotName> parsed_snapshot_name(std::string_view name);

/// Returns ".tmp-HOST-PID.PURPOSE" for this process. Readers ignore it, and it names the process that may still need
/// it.
std::string temporary_name(std::string_view purpose);

/// Removes temporary names that dead writers left in `snapshots`. A name counts as left behind if its process is this
/// one, or one of this host that has ended. A name of another host counts as left behind if nothing in it has changed
/// for an hour.
void remove_stale_temporaries(const std::filesystem::path& snapshots);

/// Removes all temporary names, also of other hosts and of live processes. Call it only while holding the run's lock
/// and before the first write, since nobody else writes there then.
void remove_all_temporaries(const std::filesystem::path& snapshots);

/// Removes a snapshot. It renames the folder first, so that a reader sees the whole snapshot or none, even if this
/// process dies halfway.
///
/// Throws: Error(kIo) if the rename is refused.
void remove_snapshot(const std::filesystem::path& snapshot);

}  // namespace lockstep
