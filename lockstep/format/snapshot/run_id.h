// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// Returns the id of the run that a `snapshots` folder belongs to, 32 hexadecimal digits from the file `run-id`. Empty
/// if there is no such file, as in folders of older versions, or if it is damaged or cannot be read.
std::string run_id_of(const std::filesystem::path& snapshots);

/// Returns the run's id. If there is none or it is damaged, it writes `run-id` with the id in the newest readable
/// MANIFEST, or else with a new id.
///
/// Throws: Error(kIo) if the file is there and cannot be read, or cannot be written.
std::string ensure_run_id(const std::filesystem::path& snapshots);

}  // namespace lockstep
