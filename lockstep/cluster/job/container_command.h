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
/// are known already. Programs must use the node's own library of NVIDIA's driver, so --nv is needed. An image for
/// AMD's devices has ROCm of its own, which the node's ROCm would disturb. So --rocm is used only if the image has
/// none.
std::vector<std::string> device_flag_lines(const JobPlan& plan);

/// True if the image is a file on this machine, and not a name in a registry.
bool is_image_file(const std::string& image, const std::string& runtime);

}  // namespace lockstep
