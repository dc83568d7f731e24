// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/format/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto array = lockstep::parse_idx(std::as_bytes(std::span(data, size)), "fuzz");
    LOCKSTEP_ASSERT(array.bytes.size() == static_cast<std::size_t>(array.size()) * array.item_bytes());
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::kData) throw;
  }
  return 0;
}
