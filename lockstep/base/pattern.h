// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep {

/// A claim: `name` is what `pattern` stands for, where `*` stands for any letters, dots and slashes included.
bool fits_pattern(std::string_view name, std::string_view pattern);

}  // namespace lockstep
