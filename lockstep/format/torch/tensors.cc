// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/torch/tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <unordered_map>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/format/torch/names.h"

namespace lockstep {
namespace {

using Kind = PickleKind;
using Sizes = std::vector<std::int64_t>;

constexpr int kMostDepth = 16;
constexpr std::size_t kMostVisits = 4'000'000;

[[noreturn]] void fail(const std::string& where, const std::string& fact,
                       std::string_view hint = "the file is damaged, or torch.save did not write it") {
  throw Error(ErrorKind::kData, where + ": " + fact, hint);
}

const PickleValue& part(const PickleValue& value, std::size_t i, const std::string& where) {
  const PickleValue* found = pickle_part(value, i);
  if (found == nullptr) fail(where, pickle_kind(value) + " has no part " + std::to_string(i));
  return *found;
}

std::int64_t whole_number(const PickleValue& value, const std::string& where, const char* what) {
  if (value.kind != Kind::kInt || value.integer < 0) {
    fail(where, std::string(what) + " is " + pickle_kind(value) +
                    (value.kind == Kind::kInt ? " " + std::to_string(value.integer) : "") + ", want 0 or more");
  }
  return value.integer;
}

Sizes whole_numbers(const PickleValue& value, const std::string& where, const char* what) {
  const PickleValue& list = value.is_call_of("torch.Size") ? part(value, 0, where) : value;
  if (list.kind != Kind::kTuple && list.kind != Kind::kList) {
    fail(where, std::string(what) + " is " + pickle_kind(value) + ", want a tuple");
  }
  Sizes sizes;
  for (const PickleValue* each : list.items) sizes.push_back(whole_number(*each, where, what));
  return sizes;
}

bool is_tensor(const PickleValue& value) {
  return value.kind == Kind::kCall && (value.callee->text.starts_with("torch._utils._rebuild_") ||
                                       value.callee->text == "torch._tensor._rebuild_from_type_v2");
}

std::string shape_text(const Sizes& shape) {
  std::vector<std::string> parts;
  for (const auto size : shape) parts.push_back(std::to_string(size));
  return "[" + joined(parts, ", ") + "]";
}

/// How a tensor views its storage, counted in elements and not in bytes.
struct View {
  std::int64_t offset = 0;
  Sizes shape;
  Sizes strides;
  std::uint64_t count = 1;  ///< Numbers in the tensor.

  bool is_row_major() const {
    std::uint64_t wanted = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
      if (shape[i] == 1) continue;
      if (static_cast<std::uint64_t>(strides[i]) != wanted) return false;
      wanted *= static_cast<std::uint64_t>(shape[i]);
    }
    return true;
  }
};

/// Counts the numbers of a view, and checks that all of them are within the storage, which has `have` numbers.
void check_view(View& view, std::uint64_t have, const std::string& where) {
  if (view.shape.size() != view.strides.size()) {
    fail(where,
         "has " + std::to_string(view.shape.size()) + " sizes and " + std::to_string(view.strides.size()) + " strides");
  }
  if (std::ranges::find(view.shape, 0) != view.shape.end()) {
    view.count = 0;
    return;
  }
  bool is_too_large = false;
  auto end = static_cast<std::uint64_t>(view.offset);
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    std::uint64_t reach = 0;
    is_too_large |= __builtin_mul_overflow(view.count, static_cast<std::uint64_t>(view.shape[i]), &view.count);
    is_too_large |= __builtin_mul_overflow(static_cast<std::uint64_t>(view.shape[i] - 1),
                                           static_cast<std::uint64_t>(view.strides[i]), &reach);
    is_too_large |= __builtin_add_overflow(end, reach, &end);
  }
  if (is_too_large || end >= have) {
    fail(where, shape_text(view.shape) + " with strides " + shape_text(view.strides) + " from " +
                    std::to_string(view.offset) + " on reaches beyond the " + std::to_string(have) +
                    " numbers of its storage");
  }
}

template <std::size_t kWidth>
void gather(const View& view, const std::byte* from, std::byte* to) {
  const std::size_t rank = view.shape.size();
  const std::int64_t inner = view.shape.back();
  const std::size_t inner_stride = static_cast<std::size_t>(view.strides.back()) * kWidth;
  Sizes index(rank, 0);
  while (true) {
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < rank; ++i) at += static_cast<std::size_t>(index[i] * view.strides[i]);
    const std::byte* number = from + at * kWidth;
    for (std::int64_t i = 0; i < inner; ++i, number += inner_stride, to += kWidth) std::memcpy(to, number, kWidth);
    std::size_t axis = rank - 1;
    while (axis > 0 && ++index[axis - 1] == view.shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

void gather(const View& view, std::size_t width, const std::byte* from, std::byte* to) {
  switch (width) {
    case 1:
      return gather<1>(view, from, to);
    case 2:
      return gather<2>(view, from, to);
    case 4:
      return gather<4>(view, from, to);
    default:
      LOCKSTEP_ASSERT(width == 8);
      return gather<8>(view, from, to);
  }
}

using BytesOf = std::function<std::span<const std::byte>(const TorchStorage&)>;

/// Visits a dict of weights and the dicts in it, and reads the tensors.
class TensorReader {
 public:
  TensorReader(const std::string& name, const BytesOf& bytes_of, std::uint64_t most_copied)
      : name_(name), bytes_of_(bytes_of), most_copied_(most_copied) {}

  void read_dict(const PickleValue& dict, const std::string& prefix, int depth = 0) {
    if (depth > kMostDepth) fail(name_, "dicts nest deeper than " + std::to_string(kMostDepth) + " levels");
    for (const auto& [key, value] : pickle_entries(dict).value_or(PickleEntries{})) {
      if (++visits_ > kMostVisits) fail(name_, "there are more than " + std::to_string(kMostVisits) + " entries");
      const std::string name = prefix + (key->is_text()            ? std::string(key->text)
                                         : key->kind == Kind::kInt ? std::to_string(key->integer)
                                                                   : pickle_kind(*key));
      if (is_tensor(*value)) {
        add(name, *value);
      } else if (pickle_entries(*value)) {
        read_dict(*value, name + ".", depth + 1);
      } else {
        found_.left_out.push_back(name);
      }
    }
  }

  TorchTensors found() { return std::move(found_); }

 private:
  void add(const std::string& name, const PickleValue& value) {
    if (!names_.insert(name).second) fail(name_, "'" + pickle_text(name) + "' is there twice, want each name once");
    found_.tensors.push_back(tensor(name, value.callee->text, *value.arguments, 0));
  }

  TensorEntry tensor(const std::string& name, std::string_view function, const PickleValue& arguments, int depth) {
    const std::string where = name_ + ": tensor '" + pickle_text(name) + "'";
    const auto inner = [&](std::string_view next, const PickleValue& its) {
      if (depth >= kMostDepth) fail(where, "is wrapped too often");
      return tensor(name, next, its, depth + 1);
    };
    if (function == "torch._utils._rebuild_parameter" || function == "torch._utils._rebuild_parameter_with_state") {
      const PickleValue& data = part(arguments, 0, where);
      if (!is_tensor(data)) fail(where, "holds " + pickle_kind(data) + ", want a tensor");
      return inner(data.callee->text, *data.arguments);
    }
    if (function == "torch._tensor._rebuild_from_type_v2") {  // (function, type, arguments, state)
      const PickleValue& wrapped = part(arguments, 2, where);
      return inner(part(arguments, 0, where).text, wrapped);
    }
    const bool has_dtype = function == "torch._utils._rebuild_tensor_v3";
    if (!has_dtype && function != "torch._utils._rebuild_tensor_v2" && function != "torch._utils._rebuild_tensor") {
      fail(where, "is built by " + pickle_text(function) + ", want a plain tensor",
           "quantised, sparse and other special tensors are not read; save what .dequantize() or .to_dense() gives");
    }
    return plain_tensor(name, arguments, has_dtype, where);
  }

  TensorEntry plain_tensor(const std::string& name, const PickleValue& arguments, bool has_dtype,
                           const std::string& where) {
    const auto storage = torch_storage(part(arguments, 0, where), where);
    std::string dtype = storage.dtype;
    if (has_dtype) {
      const PickleValue& found = part(arguments, 6, where);
      const auto known = dtype_of_torch_name(found.text);
      if (!known) fail(where, "the dtype is " + pickle_kind(found) + ", want one that safetensors names");
      dtype = *known;
    }
    if (dtype.empty()) fail(where, "has no dtype");
    const std::size_t width = dtype_bytes(dtype, where);
    View view{.offset = whole_number(part(arguments, 1, where), where, "the offset"),
              .shape = whole_numbers(part(arguments, 2, where), where, "the shape"),
              .strides = whole_numbers(part(arguments, 3, where), where, "the strides")};
    check_view(view, storage.bytes / width, where);
    TensorEntry entry{.name = name, .dtype = std::move(dtype), .shape = view.shape, .bytes = {}};
    if (view.count == 0) return entry;
    const auto bytes = bytes_of_storage(storage, where).subspan(static_cast<std::size_t>(view.offset) * width);
    entry.bytes = view.is_row_major() ? bytes.first(view.count * width) : copied(view, width, bytes.data(), where);
    return entry;
  }

  std::span<const std::byte> bytes_of_storage(const TorchStorage& storage, const std::string& where) {
    const auto known = storages_.find(storage.key);
    const auto bytes = known == storages_.end() ? bytes_of_(storage) : known->second;
    if (bytes.size() != storage.bytes) {
      fail(where, "its storage '" + pickle_text(storage.key) + "' has " + std::to_string(bytes.size()) +
                      " bytes, want " + std::to_string(storage.bytes));
    }
    storages_.emplace(storage.key, bytes);
    return bytes;
  }

  std::span<const std::byte> copied(const View& view, std::size_t width, const std::byte* from,
                                    const std::string& where) {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(view.count, std::uint64_t{width}, &bytes) || bytes > most_copied_) {
      fail(where, shape_text(view.shape) + " repeats the numbers of its storage beyond measure",
           "save it with .clone() of the tensor before it was expanded");
    }
    most_copied_ -= bytes;
    auto& copy = found_.copies.emplace_back(bytes);
    gather(view, width, from, copy.data());
    return copy;
  }

  const std::string& name_;
  const BytesOf& bytes_of_;
  std::uint64_t most_copied_;
  std::size_t visits_ = 0;
  std::set<std::string> names_;
  std::unordered_map<std::string, std::span<const std::byte>> storages_;
  TorchTensors found_;
};

/// True if a tensor is in a dict, or in the dicts directly within it.
bool holds_tensors(const PickleValue& value, int depth = 0) {
  const auto entries = pickle_entries(value);
  return entries && std::ranges::any_of(*entries, [&](const auto& entry) {
           return is_tensor(*entry.second) || (depth == 0 && holds_tensors(*entry.second, 1));
         });
}

}  // namespace

TorchStorage torch_storage(const PickleValue& value, const std::string& where) {
  // The tuple is ("storage", class, key, location, number of elements). In the oldest files it also has the part of
  // another storage that this one is a view of.
  if (value.kind != Kind::kPersistent) fail(where, "holds " + pickle_kind(value) + ", want a storage");
  const PickleValue& place = *value.arguments;
  const PickleValue& type = part(place, 1, where);
  const PickleValue& key = part(place, 2, where);
  const auto dtype = dtype_of_storage(type.text);
  if (part(place, 0, where).text != "storage" || type.kind != Kind::kGlobal || !dtype || !key.is_text()) {
    fail(where, "its storage is " + pickle_kind(type) + ", want one of plain numbers",
         "quantised, sparse and other special tensors are not read; save plain ones");
  }
  if (const PickleValue* root = pickle_part(place, 5); root != nullptr && root->kind != Kind::kNone) {
    fail(where, "its storage is part of another, as before torch 0.4", "torch.load and torch.save the file again");
  }
  TorchStorage storage{.dtype = std::string(*dtype), .key = std::string(key.text)};
  const auto count = static_cast<std::uint64_t>(whole_number(part(place, 4, where), where, "the storage's size"));
  const std::size_t width = dtype->empty() ? 1 : dtype_bytes(*dtype, where);
  if (__builtin_mul_overflow(count, std::uint64_t{width}, &storage.bytes)) fail(where, "its storage is too large");
  return storage;
}

TorchTensors torch_tensors(const PickleValue& root, const std::string& name, const BytesOf& bytes_of,
                           std::uint64_t most_copied) {
  constexpr std::array<std::string_view, 3> kKeys = {"state_dict", "model_state_dict", "model"};
  if (!pickle_entries(root)) {
    fail(name, "the file holds " + pickle_kind(root) + ", want a dict of tensors",
         "save the weights by name: torch.save(model.state_dict(), FILE)");
  }
  const PickleValue* dict = &root;
  std::string taken;
  for (const auto key : kKeys) {
    const PickleValue* weights = pickle_entry(root, key);
    if (weights == nullptr || !holds_tensors(*weights)) continue;
    dict = weights;
    taken = key;
    break;
  }
  TensorReader reader(name, bytes_of, most_copied);
  reader.read_dict(*dict, "");
  TorchTensors found = reader.found();
  found.taken = std::move(taken);
  return found;
}

}  // namespace lockstep
