// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/format/torch_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto found = lockstep::parse_torch_file(std::as_bytes(std::span(data, size)), "fuzz");
    for (const auto& tensor : found.tensors) {
      std::uint64_t bytes = lockstep::dtype_bytes(tensor.dtype);
      for (const auto part : tensor.shape) bytes *= static_cast<std::uint64_t>(part);
      LOCKSTEP_ASSERT(bytes == tensor.bytes.size());
      lockstep::xxh3_64(tensor.bytes);  // Reads them all.
    }
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::kData) throw;
  }
  return 0;
}
