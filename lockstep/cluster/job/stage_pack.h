// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Returns 16 digits that change if any file at or below `roots` changes its name, size, modification time or link
/// target. Links are not followed.
///
/// Blocks: for one lstat() for each file. Throws: Error(kIo) if a folder cannot be read.
std::string key_of(const std::vector<std::filesystem::path>& roots);

/// Packs all of `folder` into the file `pack`, first under a temporary name. Compiled Python files are included, so
/// that no rank compiles them again.
///
/// Throws: Error(kEnvironment) with tar's message.
void pack_folder(const std::filesystem::path& folder, const std::filesystem::path& pack, const Environment& env);

/// Packs `trainer`, the program `lockstep` beside it, and all libraries that they load from outside the system's own
/// folders. All go into one flat folder, since the programs in the pack look for libraries beside themselves.
///
/// Throws: Error(kEnvironment) if a library is not found, or with tar's message.
void pack_program(const std::filesystem::path& trainer, const std::filesystem::path& pack, const Environment& env);

/// Returns the libraries in the loader's output for a program ("libz.so.1 => /lib/libz.so.1 (0x7f…)"), except those in
/// the system's own folders.
///
/// Throws: Error(kEnvironment) naming a library that is not found.
std::vector<std::filesystem::path> libraries_in(const std::string& loader_output);

/// Returns the bytes of `program` with its library search path replaced by $ORIGIN. Unchanged if the program has no
/// search path.
///
/// Throws: Error(kEnvironment) if the program's search path is shorter than "$ORIGIN", so that there is no room.
std::string with_own_folder(std::string program, const std::string& search_path);

}  // namespace lockstep
