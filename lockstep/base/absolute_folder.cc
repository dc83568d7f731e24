// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/absolute_folder.h"

namespace lockstep {

std::filesystem::path absolute_folder(const std::filesystem::path& folder) {
  const auto absolute = std::filesystem::absolute(folder).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

}  // namespace lockstep
