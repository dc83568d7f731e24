// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/freed_memory.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <limits>
#include <string>

namespace lockstep {
namespace {

constexpr int kLargestThreshold = 32 << 20;

bool user_has_set_malloc(const Environment& env) {
  return env.get("MALLOC_MMAP_THRESHOLD_") || env.get("MALLOC_TRIM_THRESHOLD_") ||
         env.get("GLIBC_TUNABLES").value_or("").find("glibc.malloc.") != std::string::npos;
}

}  // namespace

void keep_freed_memory(const Environment& env) {
  if (user_has_set_malloc(env)) return;
#if defined(__GLIBC__)
  // Both thresholds are set, since setting one of them also ends glibc's automatic adjustment of the other.
  ::mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace lockstep
