// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/job/job_plan.h"

namespace lockstep {

/// The words that start a program inside the plan's container, quoted for a shell, grouped into lines: the runtime,
/// what it binds, the image. The run folder, the working folder and this program are bound too, where they lie.
std::vector<std::string> container_command(const JobPlan& plan);

/// The lines of shell that fill `gpu` with the flags that show the node's devices to the image; empty if no question is
/// left for the script to ask. NVIDIA's driver has a library for programs that must be the node's own, hence --nv. An
/// image for AMD's devices brings ROCm, which the node's would disturb: --rocm is for one that has none.
std::vector<std::string> device_flag_lines(const JobPlan& plan);

/// A claim: the image is a file here, not a name in a registry.
bool is_image_file(const std::string& image, const std::string& runtime);

}  // namespace lockstep
