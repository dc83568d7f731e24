// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/format/snapshot/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  // Parses the text twice: as it is, and with the right checksum below it, which a fuzzer cannot guess.
  const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(data), size);
  for (const std::string& text : {bytes, bytes + lockstep::hex64(lockstep::xxh3_64(bytes)) + "\n",
                                  bytes + lockstep::hex64(crc).substr(8) + "\n"}) {
    try {
      LOCKSTEP_ASSERT(lockstep::manifest_text(lockstep::parsed_manifest(text, "fuzz")) == text);
    } catch (const lockstep::Error& error) {
      if (error.kind() != lockstep::ErrorKind::kData) throw;
    }
  }
  return 0;
}
