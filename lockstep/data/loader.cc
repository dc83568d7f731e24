// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/loader.h"

#include <ATen/ops/empty.h>

#include <array>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kTypes = {{
    {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
    {"I32", at::kInt}, {"I16", at::kShort}, {"I8", at::kChar}, {"U8", at::kByte}, {"BOOL", at::kBool},
}};

BatchAllocator tensor_allocator(const std::vector<Field>& fields) {
  return [&fields](std::int64_t samples) {
    auto tensors = std::make_shared<std::vector<at::Tensor>>();
    BatchMemory memory;
    for (const auto& field : fields) {
      std::vector<std::int64_t> shape{samples};
      shape.insert(shape.end(), field.shape.begin(), field.shape.end());
      tensors->push_back(at::empty(shape, scalar_type_of(field.dtype)));
      memory.fields.push_back(static_cast<std::byte*>(tensors->back().mutable_data_ptr()));
    }
    memory.owner = std::move(tensors);
    return memory;
  };
}

}  // namespace

at::ScalarType scalar_type_of(std::string_view dtype) {
  for (const auto& [name, type] : kTypes) {
    if (name == dtype) return type;
  }
  throw Error(ErrorKind::kData, "'" + std::string(dtype) + "' is no type that LibTorch has");
}

std::string dtype_name(at::ScalarType type) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) return std::string(name);
  }
  throw Error(ErrorKind::kData, std::string("tensors of type ") + c10::toString(type) + " cannot be saved",
              "save them as one of F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL");
}

Loader::Loader(std::shared_ptr<const SampleSource> source, LoaderOptions options)
    : source_(std::move(source)), options_(options), core_(*source_, options, tensor_allocator(source_->fields())) {}

std::optional<Batch> Loader::next() {
  auto loaded = core_.next();
  if (!loaded) return std::nullopt;
  return Batch{.fields = std::move(*std::static_pointer_cast<std::vector<at::Tensor>>(loaded->memory.owner)),
               .ids = std::move(loaded->ids),
               .epoch = loaded->epoch,
               .index = loaded->index,
               .global_samples = loaded->global_samples};
}

}  // namespace lockstep
