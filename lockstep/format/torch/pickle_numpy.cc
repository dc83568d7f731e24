// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/torch/pickle_numpy.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/format/safetensors.h"

namespace lockstep {
namespace {

using Kind = PickleKind;

constexpr std::array<std::string_view, 14> kNames = {"numpy.core.multiarray._reconstruct",
                                                     "numpy._core.multiarray._reconstruct",
                                                     "numpy.core.numeric._frombuffer",
                                                     "numpy._core.numeric._frombuffer",
                                                     "numpy.core.multiarray.scalar",
                                                     "numpy._core.multiarray.scalar",
                                                     "numpy.ndarray",
                                                     "numpy.dtype",
                                                     "_codecs.encode",
                                                     "builtins.bytes",
                                                     "__builtin__.bytes",
                                                     "builtins.bytearray",
                                                     "__builtin__.bytearray",
                                                     "collections.OrderedDict"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kDtypes = {{{"f8", "F64"},
                                                                                    {"f4", "F32"},
                                                                                    {"f2", "F16"},
                                                                                    {"i8", "I64"},
                                                                                    {"i4", "I32"},
                                                                                    {"i2", "I16"},
                                                                                    {"i1", "I8"},
                                                                                    {"u8", "U64"},
                                                                                    {"u4", "U32"},
                                                                                    {"u2", "U16"},
                                                                                    {"u1", "U8"},
                                                                                    {"b1", "BOOL"}}};

[[noreturn]] void fail(const std::string& where, const std::string& fact,
                       std::string_view hint = "the file is damaged, or was not written by NumPy's pickle") {
  throw Error(ErrorKind::kData, where + ": " + fact, hint);
}

const PickleValue& part(const PickleValue& value, std::size_t i, const std::string& where) {
  const PickleValue* found = pickle_part(value, i);
  if (found == nullptr) fail(where, pickle_kind(value) + " has no part " + std::to_string(i));
  return *found;
}

std::string dtype_of(const PickleValue& value, const std::string& where) {
  if (!value.is_call_of("numpy.dtype")) fail(where, "the dtype is " + pickle_kind(value) + ", want numpy.dtype");
  const PickleValue& code = part(value, 0, where);
  // The second part of a dtype's state is its byte order. If there is no state, the byte order is this machine's.
  const PickleValue* order = value.state == nullptr ? nullptr : pickle_part(*value.state, 1);
  std::string_view letters = code.is_text() ? code.text : "";
  const bool is_native = order == nullptr || (order->is_text() && (order->text == "<" || order->text == "|"));
  if (letters.starts_with('<') || letters.starts_with('|')) letters.remove_prefix(1);
  const auto* const found = std::ranges::find(kDtypes, letters, &std::pair<std::string_view, std::string_view>::first);
  if (found == kDtypes.end() || !is_native) {
    fail(where,
         "the numbers are '" + pickle_text(order == nullptr ? "" : order->text) + pickle_text(code.text) +
             "', want plain little-endian ones",
         "convert it with array.astype('u1'), 'i8' or 'f4' and write it again");
  }
  return std::string(found->second);
}

std::vector<std::int64_t> shape_of(const PickleValue& value, const std::string& where) {
  std::vector<std::int64_t> shape;
  if (value.kind != Kind::kTuple) fail(where, "the shape is " + pickle_kind(value) + ", want a tuple");
  for (const PickleValue* size : value.items) {
    if (size->kind != Kind::kInt || size->integer < 0) {
      fail(where, "the shape holds " + pickle_kind(*size) + " " + std::to_string(size->integer) + ", want 0 or more");
    }
    shape.push_back(size->integer);
  }
  return shape;
}

void set_bytes(NumpyArray& array, const PickleValue& data, const std::string& where) {
  if (data.is_call_of("builtins.bytearray") || data.is_call_of("__builtin__.bytearray")) {
    return set_bytes(array, part(data, 0, where), where);
  }
  if (data.kind != Kind::kBytes) fail(where, "the data are " + pickle_kind(data) + ", want bytes");
  array.bytes = std::as_bytes(std::span(data.text));
}

void check_size(const NumpyArray& array, const std::string& where) {
  std::uint64_t wanted = dtype_bytes(array.dtype, where);
  bool is_too_large = false;
  for (const auto size : array.shape) {
    is_too_large |= __builtin_mul_overflow(wanted, static_cast<std::uint64_t>(size), &wanted);
  }
  if (is_too_large || array.bytes.size() != wanted) {
    fail(where, "the array has " + std::to_string(array.bytes.size()) + " bytes, want " +
                    (is_too_large ? "more than there can be" : std::to_string(wanted)) + " for its shape");
  }
}

bool ends_with_name(const PickleValue& value, std::string_view name) {
  return value.kind == Kind::kCall && value.callee->text.starts_with("numpy.") && value.callee->text.ends_with(name);
}

}  // namespace

bool is_numpy_name(std::string_view name) { return std::ranges::find(kNames, name) != kNames.end(); }

NumpyArray numpy_array(const PickleValue& value, const std::string& where) {
  NumpyArray array;
  bool is_fortran = false;
  if (ends_with_name(value, "._frombuffer")) {  // (data, dtype, shape, order): protocol 5.
    array.dtype = dtype_of(part(value, 1, where), where);
    array.shape = shape_of(part(value, 2, where), where);
    is_fortran = part(value, 3, where).text == "F";
    set_bytes(array, part(value, 0, where), where);
  } else if (ends_with_name(value, "._reconstruct") && value.state != nullptr) {  // (1, shape, dtype, fortran, data)
    array.shape = shape_of(part(*value.state, 1, where), where);
    array.dtype = dtype_of(part(*value.state, 2, where), where);
    is_fortran = part(*value.state, 3, where).integer != 0;
    set_bytes(array, part(*value.state, 4, where), where);
  } else {
    fail(where, "found " + pickle_kind(value) + ", want a NumPy array");
  }
  if (is_fortran && array.shape.size() > 1) {
    fail(where, "the array is in Fortran order, want row by row", "write numpy.ascontiguousarray(array) instead");
  }
  check_size(array, where);
  return array;
}

}  // namespace lockstep
