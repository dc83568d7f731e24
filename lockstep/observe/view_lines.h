// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// Returns lines for people from the view of a rank from outside: what the rank waits for, its Python stack, its native
/// stack. `view` has the keys of an entry of `ranks` (docs/formats/run-folder.md). Other keys are ignored.
std::vector<std::string> view_lines(const nlohmann::json& view);

}  // namespace lockstep
