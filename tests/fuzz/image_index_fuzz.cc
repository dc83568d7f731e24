// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/format/image/image_index.h"

/// The first 8 bytes are the number of bytes of images. The other bytes are the index.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint64_t> numbers(size / 8);
  if (numbers.empty() || numbers.size() % 2 == 0) return 0;
  std::memcpy(numbers.data(), data, numbers.size() * 8);
  const std::uint64_t bytes = numbers.front();
  const auto index = std::span(numbers).subspan(1);
  try {
    lockstep::check_image_index(index, bytes, "fuzz");
    for (std::size_t i = 0; i < index.size(); i += 2) {
      LOCKSTEP_ASSERT(index[i] < bytes && index[i + 1] <= bytes && index[i] + index[i + 1] <= bytes);
    }
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::kData) throw;
  }
  return 0;
}
