// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/json_text.h"
#include "lockstep/format/hashed_file.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

// The largest header that the reference implementation reads.
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
constexpr std::size_t kLengthBytes = 8;
constexpr std::string_view kMetadata = "__metadata__";
static_assert(std::endian::native == std::endian::little, "tensors lie in the file as they lie in memory");

struct Dtype {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<Dtype, 16> kDtypes = {{{"F64", 8},
                                            {"C64", 8},
                                            {"I64", 8},
                                            {"U64", 8},
                                            {"F32", 4},
                                            {"I32", 4},
                                            {"U32", 4},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"I16", 2},
                                            {"U16", 2},
                                            {"F8_E4M3", 1},
                                            {"F8_E5M2", 1},
                                            {"I8", 1},
                                            {"U8", 1},
                                            {"BOOL", 1}}};

[[noreturn]] void fail(const std::string& where, const std::string& fact) {
  throw Error(ErrorKind::kData, where + ": " + fact, "the file is damaged or was not written whole; copy it again");
}

/// Parses the header's JSON. It refuses repeated keys and deep nesting, which the format rules out but a JSON library
/// accepts.
Json parsed_json(std::string_view text, const std::string& name) {
  constexpr std::size_t kMostDepth = 3;
  std::array<std::set<std::string>, kMostDepth + 1> keys;
  const auto inspect = [&](int at, Json::parse_event_t event, Json& value) {
    const auto depth = static_cast<std::size_t>(at);
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      if (depth >= kMostDepth) fail(name, "the header nests deeper than " + std::to_string(kMostDepth) + " levels");
      keys[depth + 1].clear();
    } else if (event == Json::parse_event_t::key && !keys[depth].insert(value.get<std::string>()).second) {
      fail(name, "the header holds '" + value.get<std::string>() + "' twice, want each name once");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), inspect);
  } catch (const Json::parse_error& error) {
    fail(name, "the header is no JSON from its byte " + std::to_string(error.byte) + " on");
  } catch (const Json::exception&) {
    fail(name, "the header holds a number that does not fit 64 bits");
  }
}

struct Parts {
  std::string_view header;
  std::span<const std::byte> data;
};

Parts parts_of(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kLengthBytes) {
    fail(name, "the file holds " + std::to_string(bytes.size()) + " bytes, want at least 8 for the header's length");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMostHeaderBytes) {
    fail(name, "the header's length is " + std::to_string(length) + " bytes, want at most " +
                   std::to_string(kMostHeaderBytes));
  }
  if (length > bytes.size() - kLengthBytes) {
    fail(name, "the header's length is " + std::to_string(length) + " bytes, want at most the " +
                   std::to_string(bytes.size() - kLengthBytes) + " that follow");
  }
  const auto header = bytes.subspan(kLengthBytes, length);
  return {{reinterpret_cast<const char*>(header.data()), header.size()}, bytes.subspan(kLengthBytes + length)};
}

const Json& field(const Json& tensor, const char* key, const std::string& where) {
  const auto it = tensor.find(key);
  if (it == tensor.end()) fail(where, std::string("'") + key + "' is missing");
  return *it;
}

std::uint64_t whole_number(const Json& value, const std::string& where, const char* what) {
  if (!value.is_number_unsigned()) {
    fail(where, std::string(what) + " holds " + json_text(value) + ", want whole numbers of 0 or more");
  }
  return value.get<std::uint64_t>();
}

std::vector<std::int64_t> parsed_shape(const Json& value, const std::string& where) {
  if (!value.is_array()) fail(where, std::string("the shape is ") + value.type_name() + ", want a list");
  std::vector<std::int64_t> shape;
  for (const auto& part : value) {
    const std::uint64_t size = whole_number(part, where, "the shape");
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail(where, "the shape holds " + std::to_string(size) + ", want less than 2^63");
    }
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

/// Returns the bytes of a tensor of this shape with `width` bytes an element, or nothing on overflow.
std::optional<std::uint64_t> bytes_of(std::size_t width, std::span<const std::int64_t> shape) {
  std::uint64_t bytes = width;
  for (const auto size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

TensorEntry parsed_tensor(const std::string& tensor, const Json& value, std::span<const std::byte> data,
                          const std::string& name) {
  const std::string where = name + ": tensor '" + tensor + "'";
  if (!value.is_object()) fail(where, std::string("is ") + value.type_name() + ", want an object");
  const Json& dtype = field(value, "dtype", where);
  if (!dtype.is_string()) fail(where, std::string("the dtype is ") + dtype.type_name() + ", want text");
  TensorEntry entry{
      .name = tensor, .dtype = dtype, .shape = parsed_shape(field(value, "shape", where), where), .bytes = {}};
  const auto wanted = bytes_of(dtype_bytes(entry.dtype, where), entry.shape);
  if (!wanted) fail(where, "the shape overflows 64 bits");
  const Json& offsets = field(value, "data_offsets", where);
  if (!offsets.is_array() || offsets.size() != 2) fail(where, "'data_offsets' is no pair [begin, end]");
  const std::uint64_t begin = whole_number(offsets[0], where, "'data_offsets'");
  const std::uint64_t end = whole_number(offsets[1], where, "'data_offsets'");
  if (begin > end || end > data.size()) {
    fail(where, "lies at [" + std::to_string(begin) + ", " + std::to_string(end) +
                    ") of the data, want it within the " + std::to_string(data.size()) + " bytes there are");
  }
  if (end - begin != *wanted) {
    fail(where,
         "has " + std::to_string(end - begin) + " bytes, want " + std::to_string(*wanted) + " for its dtype and shape");
  }
  entry.bytes = data.subspan(begin, end - begin);
  return entry;
}

/// Checks that every byte of the data belongs to exactly one tensor, without overlap, gap or remainder.
void check_layout(std::span<const TensorEntry> tensors, std::span<const std::byte> data, const std::string& name) {
  const std::byte* at = data.data();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].bytes.data() != at) {
      fail(name + ": tensor '" + tensors[i].name + "'",
           "starts at byte " + std::to_string(tensors[i].bytes.data() - data.data()) + " of the data, want " +
               std::to_string(at - data.data()) +
               (i == 0 ? " for the first" : ", where '" + tensors[i - 1].name + "' ends"));
    }
    at += tensors[i].bytes.size();
  }
  if (at != data.data() + data.size()) {
    fail(name, "the file holds " + std::to_string(data.size()) + " bytes of data, want " +
                   std::to_string(at - data.data()) + " for its tensors");
  }
}

std::map<std::string, std::string> parsed_metadata(const Json& value, const std::string& name) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object()) fail(name, std::string("'__metadata__' is ") + value.type_name() + ", want an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      fail(name, "'__metadata__' has " + std::string(text.type_name()) + " at '" + key + "', want text");
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

std::string header_text(std::span<const TensorEntry* const> tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += Json(kMetadata).dump() + ":" + Json(metadata).dump() + ",";
  std::set<std::string_view> names = {kMetadata};
  std::uint64_t offset = 0;
  for (const TensorEntry* tensor : tensors) {
    LOCKSTEP_ASSERT(names.insert(tensor->name).second);
    LOCKSTEP_ASSERT(bytes_of(dtype_bytes(tensor->dtype), tensor->shape) == tensor->bytes.size());
    const std::uint64_t end = offset + tensor->bytes.size();
    text += Json(tensor->name).dump() + R"(:{"dtype":")" + tensor->dtype + R"(","shape":)" +
            Json(tensor->shape).dump() + R"(,"data_offsets":[)" + std::to_string(offset) + "," + std::to_string(end) +
            "]},";
    offset = end;
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::size_t dtype_bytes(std::string_view dtype, const std::string& where) {
  const auto found = std::ranges::find(kDtypes, dtype, &Dtype::name);
  if (found != kDtypes.end()) return found->bytes;
  std::string names;
  for (const auto& known : kDtypes) names.append(" ").append(known.name);
  throw Error(ErrorKind::kData, where + ": the dtype is '" + std::string(dtype) + "', want one of" + names,
              "convert the tensor to one of these and write it again");
}

WrittenFile write_safetensors(int fd, const std::filesystem::path& path, std::span<const TensorEntry> tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::vector<const TensorEntry*> ordered;
  for (const auto& tensor : tensors) ordered.push_back(&tensor);
  std::ranges::stable_sort(ordered, std::greater{},
                           [](const TensorEntry* tensor) { return dtype_bytes(tensor->dtype); });
  const std::string header = header_text(ordered, metadata);
  const std::uint64_t length = header.size();
  std::uint64_t data = 0;
  for (const TensorEntry* tensor : ordered) data += tensor->bytes.size();
  HashedFile file(fd, path, data);
  file.append(std::as_bytes(std::span(&length, 1)));
  file.append(std::as_bytes(std::span(header)));
  for (const TensorEntry* tensor : ordered) file.append(tensor->bytes);
  return file.finished();
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  MappedFile mapping(path);
  SafetensorsFile file = parse(mapping.bytes(), path.string());
  file.mapping_ = std::move(mapping);
  return file;
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  const auto [text, data] = parts_of(bytes, name);
  if (!text.starts_with('{')) fail(name, "the header does not start with '{'");
  const Json header = parsed_json(text, name);
  SafetensorsFile file;
  for (const auto& [key, value] : header.items()) {
    if (key == kMetadata) {
      file.metadata_ = parsed_metadata(value, name);
    } else {
      file.tensors_.push_back(parsed_tensor(key, value, data, name));
    }
  }
  std::ranges::stable_sort(
      file.tensors_, {}, [](const TensorEntry& tensor) { return std::pair(tensor.bytes.data(), tensor.bytes.size()); });
  check_layout(file.tensors_, data, name);
  for (std::size_t i = 0; i < file.tensors_.size(); ++i) file.places_.emplace(file.tensors_[i].name, i);
  return file;
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto it = places_.find(name);
  return it == places_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace lockstep
