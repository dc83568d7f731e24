// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Expands a Slurm host list in Slurm's order, such as `a[1-2]x[3-4]`, `tux[3]-[5-6]` or `n[008-011,20]`.
///
/// Throws: Error(kUsage) with the position of the fault if the text is not a host list, or names more than 1 000 000
///         hosts.
/// Source: scontrol(1) "show hostnames"; src/common/hostlist.c of Slurm gives the grammar.
std::vector<std::string> expanded_hosts(std::string_view expression);

/// Expands "2(x3),1", as in SLURM_TASKS_PER_NODE, to {2, 2, 2, 1}.
///
/// Throws: Error(kEnvironment) quoting the text if it is not such a list.
std::vector<int> expanded_counts(std::string_view text);

}  // namespace lockstep
