// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/pattern.h"

namespace lockstep {

bool fits_pattern(std::string_view name, std::string_view pattern) {
  // The last `*` matches as few characters as it can. If the rest of the pattern then does not match, it takes one
  // character more.
  std::size_t n = 0, p = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace lockstep
