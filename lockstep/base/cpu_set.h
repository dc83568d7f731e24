// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace lockstep {

/// Hardware threads by the kernel's numbers.
using CpuSet = std::set<int>;

/// "0-3,8" as the kernel's cpulist files and taskset have it; empty text is the empty set.
///
/// Throws: Error(kEnvironment) quoting the text where it is no such list, or names a CPU beyond 65535.
CpuSet cpus_of_list(std::string_view text);

/// "0x00fe000000000000" as srun's mask_cpu has it, of any length; the last digit is CPUs 0 to 3.
///
/// Throws: Error(kEnvironment) quoting the text where it is no hexadecimal number.
CpuSet cpus_of_mask(std::string_view text);

/// "0-3,8".
std::string list_of(const CpuSet& cpus);

/// Those that are in both.
CpuSet common(const CpuSet& a, const CpuSet& b);

/// Where this process may run now.
///
/// Throws: Error(kEnvironment) where the system does not tell.
CpuSet cpus_of_process();

/// Keeps this process, and all that it starts from now on, on `cpus`. The kernel takes those away that the job's cgroup
/// does not allow.
///
/// Returns: where it may run from now on, or the empty set where the cgroup allows none of them: then nothing changed.
CpuSet bind_process(const CpuSet& cpus);

}  // namespace lockstep
