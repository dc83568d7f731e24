// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// The newest collective in a record of PyTorch's flight recorder.
struct RecordedCollective {
  std::int64_t number = 0;  ///< Its number within the process group.
  std::string operation{};  ///< "nccl:all_reduce"
  std::string sizes{};      ///< Sizes of the inputs, "[3, 4]".
  std::string state{};      ///< "scheduled", "started" or "completed".
  std::string group{};      ///< Name of the process group, such as "default_pg".
  std::string caller{};     ///< "step (train.py:31)", or empty.
};

/// Reads the file that PyTorch's flight recorder writes for a rank. Returns the oldest collective that has not
/// completed, or else the newest one. Returns nothing if the file is of another kind, or has no collectives. The file
/// is a pickle, but no code in it is run.
/// Source: PyTorch's tutorial on the flight recorder, "File Formats".
std::optional<RecordedCollective> read_flight_record(const std::filesystem::path& path);

/// Returns the path of the flight recorder's file of `rank`, as the variables of its process say. If they do not say,
/// it is the newest file in the folders that PyTorch uses by default. Empty if there is none.
std::filesystem::path flight_record_path(const Environment& env, int rank);

/// Returns a text such as "collective 57, nccl:all_reduce of [3, 4] in default_pg, started, from step (train.py:31)"
std::string describe(const RecordedCollective& collective);

}  // namespace lockstep
