// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// Refuses a further flag of sbatch that says what an option of `submit` says, in any of sbatch's spellings:
/// "--nodes=3",
/// "--nodes 3", "-N3", "-N 3", "--nod=3". With two sources for one number, one of them would be wrong.
///
/// Throws: Error(kUsage) naming the option to use, and for a text that is no flag.
/// Source: sbatch(1) of Slurm 22.05, whose getopt_long() takes all of these.
void check_sbatch_flag(const std::string& flag);

}  // namespace lockstep
