// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/data/source/text_source.h"
#include "tests/fuzz/memory_file.h"

/// The first byte is the length of a window, and the other bytes are the text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const lockstep::MemoryFile file(data + 1, size - 1);
  try {
    const auto source = lockstep::text_source(file.path(), {.window = data[0], .share = 0.15});
    LOCKSTEP_ASSERT(source->size() == static_cast<std::int64_t>((size - 1) / data[0]));
    read_all(*source);
  } catch (const lockstep::Error& error) {
    const bool is_refusal = error.kind() == lockstep::ErrorKind::kData || error.kind() == lockstep::ErrorKind::kRecipe;
    if (!is_refusal) throw;
  }
  return 0;
}
