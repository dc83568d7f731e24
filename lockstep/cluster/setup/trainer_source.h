// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Returns the folder with Lockstep's sources. The folder is $LOCKSTEP_SOURCE, which may also be a bundle, or else the
/// tree in which `program` was built. Otherwise the bundle lockstep-VERSION.tar.gz, beside the program or in
/// ../share/lockstep, is unpacked once into the cache.
///
/// Throws: Error(kEnvironment) naming the places searched if there are no sources, or with tar's message.
std::filesystem::path source_tree(const std::filesystem::path& program, std::string_view version,
                                  const Environment& env);

/// Returns a program for `sh` that configures and builds lockstep-train in the folder `build`. It compiles `jobs` files
/// at once, and fewer if memory is small. `python` is the Python that runs Python models. If empty, it is the one to
/// which `torch` belongs. The program exits with 90 if there is no cmake, 91 if cmake is too old, and 92 if there is no
/// compiler.
std::string build_script(const std::filesystem::path& source, const std::filesystem::path& build,
                         const std::filesystem::path& torch, int jobs, const std::string& python = {});

/// Returns the requirements of a build, for a hint.
std::string_view build_needs();

}  // namespace lockstep
