// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/data/source/csv_source.h"
#include "tests/fuzz/memory_file.h"

/// Reads the bytes as a CSV table: as a training table and as a validation table, each with classes and with numbers as
/// targets.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const lockstep::MemoryFile file(data, size);
  for (const bool is_regression : {false, true}) {
    const lockstep::CsvOptions options{.label = {}, .is_regression = is_regression};
    try {
      const auto table = lockstep::csv_table(file.path(), options);
      LOCKSTEP_ASSERT(table.source->size() > 0);
      read_all(*table.source);
      read_all(*lockstep::csv_table(file.path(), options, &table.columns).source);
    } catch (const lockstep::Error& error) {
      if (error.kind() != lockstep::ErrorKind::kData) throw;
    }
  }
  return 0;
}
