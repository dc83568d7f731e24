// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/torch/names.h"

#include <algorithm>
#include <array>

#include "lockstep/format/torch/pickle_numpy.h"

namespace lockstep {
namespace {

struct Dtype {
  std::string_view name;
  std::string_view torch;
  std::string_view storage;  ///< Empty if torch keeps the dtype in storages of bytes.
};

constexpr std::array<Dtype, 16> kDtypes = {{{"F64", "float64", "DoubleStorage"},
                                            {"F32", "float32", "FloatStorage"},
                                            {"F16", "float16", "HalfStorage"},
                                            {"BF16", "bfloat16", "BFloat16Storage"},
                                            {"I64", "int64", "LongStorage"},
                                            {"I32", "int32", "IntStorage"},
                                            {"I16", "int16", "ShortStorage"},
                                            {"I8", "int8", "CharStorage"},
                                            {"U8", "uint8", "ByteStorage"},
                                            {"BOOL", "bool", "BoolStorage"},
                                            {"C64", "complex64", "ComplexFloatStorage"},
                                            {"U64", "uint64", ""},
                                            {"U32", "uint32", ""},
                                            {"U16", "uint16", ""},
                                            {"F8_E4M3", "float8_e4m3fn", ""},
                                            {"F8_E5M2", "float8_e5m2", ""}}};

constexpr std::array<std::string_view, 32> kNames = {"collections.OrderedDict",
                                                     "collections.defaultdict",
                                                     "collections.Counter",
                                                     "torch._utils._rebuild_tensor",
                                                     "torch._utils._rebuild_tensor_v2",
                                                     "torch._utils._rebuild_tensor_v3",
                                                     "torch._utils._rebuild_parameter",
                                                     "torch._utils._rebuild_parameter_with_state",
                                                     "torch._utils._rebuild_qtensor",
                                                     "torch._utils._rebuild_sparse_tensor",
                                                     "torch._utils._rebuild_meta_tensor_no_storage",
                                                     "torch._utils._rebuild_nested_tensor",
                                                     "torch._utils._rebuild_wrapper_subclass",
                                                     "torch._utils._rebuild_device_tensor_from_numpy",
                                                     "torch._tensor._rebuild_from_type_v2",
                                                     "torch.serialization._get_layout",
                                                     "torch.nn.parameter.Parameter",
                                                     "torch.nn.parameter.Buffer",
                                                     "torch.Tensor",
                                                     "torch.Size",
                                                     "torch.device",
                                                     "builtins.set",
                                                     "__builtin__.set",
                                                     "builtins.int",
                                                     "builtins.list",
                                                     "builtins.dict",
                                                     "builtins.complex",
                                                     "pathlib.Path",
                                                     "pathlib.PosixPath",
                                                     "argparse.Namespace",
                                                     "pytorch_lightning.utilities.parsing.AttributeDict",
                                                     "lightning.fabric.utilities.data.AttributeDict"};

constexpr std::string_view kTorch = "torch.";

/// Returns "float32" for "torch.float32". Empty for names of other modules.
std::string_view torch_part(std::string_view name) {
  if (!name.starts_with(kTorch)) return {};
  name.remove_prefix(kTorch.size());
  return name;
}

}  // namespace

bool is_torch_name(std::string_view name) {
  // Dtypes of tensors that Lockstep cannot read. They are allowed as names, so that the error can name the tensor.
  constexpr std::array<std::string_view, 13> kDtypesAside = {
      "complex128",          "complex32",    "qint8",         "quint8",        "qint32",     "per_tensor_affine",
      "per_channel_affine",  "QInt8Storage", "QUInt8Storage", "QInt32Storage", "sparse_coo", "sparse_csr",
      "ComplexDoubleStorage"};
  return std::ranges::find(kNames, name) != kNames.end() || is_numpy_name(name) || dtype_of_storage(name) ||
         dtype_of_torch_name(name) || std::ranges::find(kDtypesAside, torch_part(name)) != kDtypesAside.end();
}

std::optional<std::string_view> dtype_of_storage(std::string_view name) {
  if (name == "torch.storage.UntypedStorage" || name == "torch.UntypedStorage") return "";
  std::string_view part = torch_part(name);
  if (part.starts_with("cuda.")) part.remove_prefix(5);
  for (const auto& dtype : kDtypes) {
    if (!dtype.storage.empty() && dtype.storage == part) return dtype.name;
  }
  return std::nullopt;
}

std::optional<std::string_view> dtype_of_torch_name(std::string_view name) {
  const auto* const found = std::ranges::find(kDtypes, torch_part(name), &Dtype::torch);
  return found == kDtypes.end() ? std::nullopt : std::optional(found->name);
}

std::optional<std::string_view> storage_of_dtype(std::string_view dtype) {
  const auto* const found = std::ranges::find(kDtypes, dtype, &Dtype::name);
  if (found == kDtypes.end() || found->storage.empty()) return std::nullopt;
  return found->storage;
}

}  // namespace lockstep
