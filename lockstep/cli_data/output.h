// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lockstep {

/// Writes one line of JSON, or plain text, to standard output. Throws: Error(kIo) if that fails.
void print_line(const nlohmann::ordered_json& object);
void print_text(const std::string& text);

}  // namespace lockstep
