// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/launch/placement/host_list.h"

namespace {

// The length of the text is limited, so that a million hosts with names of this length fit into the memory of a fuzzing
// run.
constexpr std::size_t kLongest = 64;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > kLongest) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    for (const std::string& host : lockstep::expanded_hosts(text)) LOCKSTEP_ASSERT(!host.empty());
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::kUsage) throw;
  }
  try {
    for (const int count : lockstep::expanded_counts(text)) LOCKSTEP_ASSERT(count > 0);
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::kEnvironment) throw;
  }
  return 0;
}
