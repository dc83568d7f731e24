// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Adds `run_dir` to the list of this user's run folders, so that `lockstep ls` and job ids find the run from any
/// folder. The list is a file in cache_folder(), with one path on each line. A failure is not reported, since
/// everything else works without the list.
void remember_run(const std::filesystem::path& run_dir, const Environment& env);

/// Returns the run folders in the list that still exist, each once, the oldest first.
std::vector<std::filesystem::path> remembered_runs(const Environment& env);

}  // namespace lockstep
