// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/format/torch/names.h"
#include "lockstep/format/torch/pickle.h"
#include "lockstep/format/torch/pickle_numpy.h"

namespace {

void look(const lockstep::PickleValue& value) {
  lockstep::pickle_kind(value);
  for (const auto& [key, item] : lockstep::pickle_entries(value).value_or(lockstep::PickleEntries{})) {
    LOCKSTEP_ASSERT(key != nullptr && item != nullptr);
  }
  if (value.kind == lockstep::PickleKind::kCall) lockstep::numpy_array(value, "fuzz");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto pickle = lockstep::Pickle::read(bytes, "fuzz", lockstep::is_torch_name);
    LOCKSTEP_ASSERT(pickle.size() <= size);
    for (const auto& value : pickle.values()) look(value);
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::kData) throw;
  }
  return 0;
}
