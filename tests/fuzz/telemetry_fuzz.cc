// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string_view>

#include "lockstep/telemetry/telemetry.h"

/// Reads the bytes as a node's telemetry. The node may have died while it wrote, or somebody may have changed the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (const auto line = lockstep::parsed_telemetry(text)) lockstep::json_of_sample(line->sample, line->node);
  return 0;
}
