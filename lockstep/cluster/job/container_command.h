// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/job/job_plan.h"

namespace lockstep {

/// The words that start a program inside the plan's container, quoted for a shell, grouped into lines: the runtime,
/// what it binds, the image. The run folder, the working folder and this program are bound too, where they lie.
std::vector<std::string> container_command(const JobPlan& plan);

/// A claim: the image is a file here, not a name in a registry.
bool is_image_file(const std::string& image, const std::string& runtime);

}  // namespace lockstep
