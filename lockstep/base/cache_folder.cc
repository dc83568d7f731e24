// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/cache_folder.h"

namespace lockstep {

namespace fs = std::filesystem;

fs::path cache_folder(const Environment& env) {
  if (const auto given = env.get("LOCKSTEP_CACHE")) return fs::absolute(*given);
  if (const auto cache = env.get("XDG_CACHE_HOME")) return fs::path(*cache) / "lockstep";
  return fs::path(env.get("HOME").value_or("/tmp")) / ".cache" / "lockstep";
}

}  // namespace lockstep
