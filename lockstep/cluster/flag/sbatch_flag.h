// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Refuses a further flag of sbatch that duplicates an option of `submit`, in any of sbatch's spellings, such as
/// "--nodes=3", "--nodes 3", "-N3", "-N 3" and "--nod=3". With two sources for one number, one of them would be wrong.
///
/// Throws: Error(kUsage) naming the option to use instead, and for a text that is not a flag.
/// Source: sbatch(1) of Slurm 22.05, whose getopt_long() takes all of these.
void check_sbatch_flag(const std::string& flag);

/// Refuses --at-most beside a flag of sbatch that names a dependency, since sbatch would silently use only one of them.
///
/// Throws: Error(kUsage) naming the flag.
void check_no_dependency(const std::vector<std::string>& flags);

}  // namespace lockstep
