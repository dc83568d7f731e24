// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Returns the names of modules in the output of `module -t avail`. Headings and marks such as "(default)" are left
/// out.
std::vector<std::string> parsed_modules(std::string_view text);

}  // namespace lockstep
