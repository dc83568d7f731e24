// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/job/job_plan.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep {

/// Returns the file that `command` hands to Python, also through torchrun: "train.py" of `python -u train.py --lr 1`.
/// Nothing for `-m`, `-c` and other programs.
std::optional<std::filesystem::path> script_of(const std::vector<std::string>& command);

/// Looks, before the job waits in the queue, at the files that it names and that can be seen from here: the script of a
/// program, and a recipe's data. A script within a container, and one that lines of setup may lead to, are not looked
/// for.
///
/// Throws: Error(kEnvironment) if the script is missing, Error(kData) if the data are; both say how to submit anyway.
void check_files_of_job(const JobPlan& plan, const Recipe& settings);

}  // namespace lockstep
