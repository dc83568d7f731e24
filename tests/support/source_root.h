// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace lockstep::testing {

/// Returns the checkout's folder. Test programs are below it, in build/PRESET/. For others, LOCKSTEP_SOURCE names the
/// folder.
///
/// __FILE__ cannot be used for this. It is relative, so that several checkouts share a compiler cache.
inline std::filesystem::path source_root() {
  if (const char* given = std::getenv("LOCKSTEP_SOURCE")) return given;
  for (auto at = std::filesystem::read_symlink("/proc/self/exe"); at.has_relative_path(); at = at.parent_path()) {
    if (std::filesystem::exists(at / "layers.txt")) return at;
  }
  std::fputs("this test program lies outside of a checkout; set LOCKSTEP_SOURCE to one\n", stderr);
  std::abort();
}

}  // namespace lockstep::testing
