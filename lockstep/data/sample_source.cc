// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/sample_source.h"

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

/// Returns the bytes of one number of a safetensors type. 0 for an unknown type.
std::size_t number_bytes(const std::string& dtype) {
  if (dtype == "U8" || dtype == "I8" || dtype == "BOOL") return 1;
  if (dtype == "U16" || dtype == "I16" || dtype == "F16" || dtype == "BF16") return 2;
  if (dtype == "U32" || dtype == "I32" || dtype == "F32") return 4;
  if (dtype == "U64" || dtype == "I64" || dtype == "F64") return 8;
  return 0;
}

}  // namespace

std::size_t Field::bytes() const {
  std::size_t total = number_bytes(dtype);
  if (total == 0) {
    throw Error(ErrorKind::kUsage, "field '" + name + "' has the type '" + dtype + "', want one of safetensors'",
                "U8 I8 BOOL U16 I16 F16 BF16 U32 I32 F32 U64 I64 F64");
  }
  for (const std::int64_t size : shape) {
    if (size < 0) throw Error(ErrorKind::kUsage, "field '" + name + "' has a size of " + std::to_string(size));
    total *= static_cast<std::size_t>(size);
  }
  return total;
}

}  // namespace lockstep
