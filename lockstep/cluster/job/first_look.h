// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/job/job_plan.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// Returns the file that `command` passes to Python, also through torchrun, such as "train.py" of `python -u train.py
/// --lr 1`. Nothing for `-m`, `-c` and other programs.
std::optional<std::filesystem::path> script_of(const std::vector<std::string>& command);

/// Checks the files of a job that are visible from here, before it waits in the queue. These files are the script of a
/// program, and a recipe's data and Python files. It does not check a script within a container, or for one that shell
/// commands of the set-up may provide.
///
/// Throws: Error(kEnvironment) if the script is missing, Error(kData) if the data are, Error(kIo) if a Python file is.
/// All say how to submit anyway.
void check_files_of_job(const JobPlan& plan, const Recipe& settings);

}  // namespace lockstep
