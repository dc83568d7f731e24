// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Notes that a run lies in `run_dir`, so that `ls` and job numbers find it from any folder. The list is a file in
/// cache_folder(), one path a line. Without a list everything else works as well, so no failure is reported.
void remember_run(const std::filesystem::path& run_dir, const Environment& env);

/// The run folders that were noted and are still there, each once, the oldest first.
std::vector<std::filesystem::path> remembered_runs(const Environment& env);

}  // namespace lockstep
