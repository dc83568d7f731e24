// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/job/job_plan.h"

namespace lockstep {

/// Returns the words that start a program inside the plan's container, quoted for a shell and grouped into lines. They
/// are the runtime, its binds and the image. The run folder, the working folder and this program are bound too, at
/// their own paths.
std::vector<std::string> container_command(const JobPlan& plan);

/// Returns the shell lines that set `gpu` to the flags that expose the node's devices to the image. Empty if the flags
/// are known already. NVIDIA's driver has a library for programs that must be the node's own, hence --nv. An image for
/// AMD's devices brings ROCm, which the node's would disturb, so --rocm is for an image without it.
std::vector<std::string> device_flag_lines(const JobPlan& plan);

/// True if the image is a file here, not a name in a registry.
bool is_image_file(const std::string& image, const std::string& runtime);

}  // namespace lockstep
