// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/dtype.h"

#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kTypes = {{
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
}};

}  // namespace

at::ScalarType scalar_type_of(std::string_view dtype) {
  for (const auto& [name, type] : kTypes) {
    if (name == dtype) return type;
  }
  throw Error(ErrorKind::kData, "'" + std::string(dtype) + "' is not a type of LibTorch",
              "use one of F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL");
}

std::string dtype_name(at::ScalarType type) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) return std::string(name);
  }
  throw Error(ErrorKind::kUsage, std::string("a tensor of type ") + c10::toString(type) + " cannot be saved",
              "keep weights and buffers in one of F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL");
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  LOCKSTEP_ASSERT(tensor.is_contiguous() && tensor.is_cpu());
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

at::Tensor tensor_from(std::string_view dtype, at::IntArrayRef shape, std::span<const std::byte> bytes) {
  auto tensor = at::empty(shape, scalar_type_of(dtype));
  LOCKSTEP_ASSERT(tensor.nbytes() == bytes.size());
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

std::string shape_text(at::IntArrayRef shape) {
  std::vector<std::string> parts;
  for (const auto size : shape) parts.push_back(std::to_string(size));
  return "[" + joined(parts, ", ") + "]";
}

}  // namespace lockstep
