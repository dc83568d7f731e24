// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/format/torch/zip_unpack.h"
#include "tests/fuzz/memory_file.h"
#include "tests/support/temporary_folder.h"

namespace fs = std::filesystem;

/// Unpacks into a folder. The folder around it is otherwise empty, and must stay so.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const lockstep::testing::TemporaryFolder folder(fs::temp_directory_path() / "");
  const fs::path& outer = folder.path();
  fs::create_directory(outer / "inner");
  const lockstep::MemoryFile file(data, size);
  try {
    lockstep::unpack_zip(file.path(), outer / "inner",
                         [](std::uint64_t done, std::uint64_t all) { LOCKSTEP_ASSERT(done <= all); });
  } catch (const lockstep::Error& error) {
    // Error(kIo) means that a file has the name of another entry's folder, or that the file system refuses a name.
    const bool is_refusal = error.kind() == lockstep::ErrorKind::kData || error.kind() == lockstep::ErrorKind::kIo;
    if (!is_refusal) throw;
  }
  LOCKSTEP_ASSERT(std::distance(fs::directory_iterator(outer), fs::directory_iterator()) == 1);
  fs::remove_all(outer / "inner");
  return 0;
}
