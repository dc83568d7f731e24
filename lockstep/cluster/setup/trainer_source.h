// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Returns the folder with Lockstep's sources. It is $LOCKSTEP_SOURCE, a folder or a bundle, or else the tree that
/// `program` was built in. Else it is the bundle lockstep-VERSION.tar.gz beside the program or in ../share/lockstep,
/// unpacked once into the cache.
///
/// Throws: Error(kEnvironment) naming the places if none is there, or with tar's message.
std::filesystem::path source_tree(const std::filesystem::path& program, std::string_view version,
                                  const Environment& env);

/// A program for `sh` that configures and builds lockstep-train in `build`, as many files at once as `jobs` says, fewer
/// if memory is small. `python` hosts the trainer of Python models; empty for the one that `torch` lies below. Ends
/// with 90 if there is no cmake, 91 if it is too old, 92 if there is no compiler.
std::string build_script(const std::filesystem::path& source, const std::filesystem::path& build,
                         const std::filesystem::path& torch, int jobs, const std::string& python = {});

/// Returns the requirements of a build, for a hint.
std::string_view build_needs();

}  // namespace lockstep
