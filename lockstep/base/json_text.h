// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep {

/// Returns the text of a JSON value, on one line unless `indent` is given.
///
/// JSON holds UTF-8 only. Other bytes, which a path or a program's message may have, become U+FFFD. dump() would throw.
template <typename Json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep
