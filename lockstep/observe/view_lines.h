// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// Returns what is seen of a rank from outside, as lines for people: what it waits for, its Python lines, its native
/// stack. `view` has the keys of an entry of `ranks` (docs/formats/run-folder.md). Other keys are ignored.
std::vector<std::string> view_lines(const nlohmann::json& view);

}  // namespace lockstep
