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
  std::int64_t number = 0;  ///< Of its process group.
  std::string operation{};  ///< "nccl:all_reduce"
  std::string sizes{};      ///< "[3, 4]", of the inputs.
  std::string state{};      ///< "scheduled", "started" or "completed".
  std::string group{};      ///< Of the process group, such as "default_pg".
  std::string caller{};     ///< "step (train.py:31)", or empty.
};

/// Reads the file that PyTorch's flight recorder leaves for a rank. Returns its oldest collective that has not
/// completed, or else its newest. Nothing if it is another file, or has no collectives. No code of it is run.
/// Source: PyTorch's tutorial on the flight recorder, "File Formats".
std::optional<RecordedCollective> read_flight_record(const std::filesystem::path& path);

/// Returns the file of the recorder of `rank`, by the variables of its process. Without such a variable it is the
/// newest at the places that PyTorch takes, or empty.
std::filesystem::path flight_record_path(const Environment& env, int rank);

/// "collective 57, nccl:all_reduce of [3, 4] in default_pg, started, from step (train.py:31)"
std::string describe(const RecordedCollective& collective);

}  // namespace lockstep
