// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep {

/// True if `name` matches `pattern`. A `*` matches any characters, dots and slashes included.
bool fits_pattern(std::string_view name, std::string_view pattern);

}  // namespace lockstep
