// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// Returns the id of the run that a `snapshots` folder belongs to: 32 hexadecimal digits in the file `run-id`; empty
/// where there is none, as in folders of older versions, or where the file is damaged.
std::string run_id_of(const std::filesystem::path& snapshots);

/// Does the same, and where there is none, writes the id that the newest readable MANIFEST names, or else a new one.
///
/// Throws: Error(kIo) where it cannot be written.
std::string ensure_run_id(const std::filesystem::path& snapshots);

}  // namespace lockstep
