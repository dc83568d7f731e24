// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace lockstep {

/// A set of CPUs. As in the kernel, each hardware thread is a CPU and has a number.
using CpuSet = std::set<int>;

/// Parses a CPU list such as "0-3,8", as in the kernel's cpulist files and taskset. Empty text is the empty set.
///
/// Throws: Error(kEnvironment) quoting the text if it is not a CPU list, or names a CPU beyond 65535.
CpuSet cpus_of_list(std::string_view text);

/// Parses a mask such as "0x00fe000000000000", as in srun's mask_cpu, of any length. The last digit is CPUs 0 to 3.
///
/// Throws: Error(kEnvironment) quoting the text if the mask is not a hexadecimal number.
CpuSet cpus_of_mask(std::string_view text);

/// "0-3,8".
std::string list_of(const CpuSet& cpus);

/// Returns the CPUs that are in both sets.
CpuSet common(const CpuSet& a, const CpuSet& b);

/// Returns the CPUs that this process may run on now.
///
/// Throws: Error(kEnvironment) if the system does not report the CPUs of this process.
CpuSet cpus_of_process();

/// Binds this process, and every process that it starts from now on, to `cpus`. The kernel leaves out CPUs that the
/// job's cgroup does not allow.
///
/// Returns the CPUs that the process may run on from now on. Returns the empty set, and changes nothing, if the cgroup
/// allows none of `cpus`.
CpuSet bind_process(const CpuSet& cpus);

}  // namespace lockstep
