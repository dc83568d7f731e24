// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The module names in what `module -t avail` prints. Headings and marks such as "(default)" are left out.
std::vector<std::string> parsed_modules(std::string_view text);

}  // namespace lockstep
