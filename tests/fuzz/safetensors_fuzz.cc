// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/format/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto file = lockstep::SafetensorsFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
    std::size_t bytes = 0;
    for (const auto& tensor : file.tensors()) {
      LOCKSTEP_ASSERT(file.find(tensor.name) == &tensor);
      bytes += tensor.bytes.size();
    }
    LOCKSTEP_ASSERT(bytes <= size);
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::kData) throw;
  }
  return 0;
}
