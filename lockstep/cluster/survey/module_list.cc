// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/module_list.h"

#include "lockstep/base/text.h"

namespace lockstep {

std::vector<std::string> parsed_modules(std::string_view text) {
  std::vector<std::string> names;
  for (const auto& line : split(text, '\n')) {
    auto name = trimmed(line);
    name = name.substr(0, name.find_first_of("(< \t"));
    // In the output "/apps/modules:" is a heading, and "pytorch/" is the folder of a module's versions. Both are
    // skipped.
    if (name.empty() || name.ends_with(':') || name.ends_with('/') || name.starts_with('/')) continue;
    names.emplace_back(name);
  }
  return names;
}

}  // namespace lockstep
