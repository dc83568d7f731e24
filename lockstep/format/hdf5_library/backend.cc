// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/hdf5/backend.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/format/hdf5_library/handle.h"
#include "lockstep/format/hdf5_library/make.h"

namespace lockstep {

using hdf5::Handle;
using hdf5::Library;

namespace {

struct OpenFile final : Hdf5File::State, std::enable_shared_from_this<OpenFile> {
  std::filesystem::path path;
  Handle file;
  FileDescriptor bytes;
  bool is_plain = false;  ///< True if offsets that the library reports are those of the file.

  explicit OpenFile(const std::filesystem::path& to_open);
  bool has_array(const std::string& name) const override;
  bool has_group(const std::string& name) const override;
  std::vector<std::string> names_in(const std::string& group) const override;
  std::shared_ptr<const Hdf5Array::State> array(const std::string& name) const override;
};

struct OpenArray final : Hdf5Array::State {
  std::shared_ptr<const OpenFile> file;
  Handle data;
  Handle memory_type;
  std::uint64_t offset = 0;     ///< Offset of a contiguous array. Only for direct reads.
  std::int64_t chunk_rows = 0;  ///< Rows of a chunk, 0 if the array is contiguous. Only for direct reads.
  /// The chunks' offsets in the file, looked up at first use. 0 means not looked up yet, and 1 means that the file
  /// lacks the chunk.
  mutable std::vector<std::atomic<std::uint64_t>> chunks;

  void read_rows(std::int64_t first, std::int64_t count, std::span<std::byte> to) const override;
  std::vector<std::byte> bytes_row(std::int64_t row) const override;
  std::vector<std::int64_t> integers() const override;
  std::vector<std::string> texts() const override;

  std::uint64_t chunk_offset(std::int64_t chunk) const;
  void read_by_library(std::int64_t first, std::int64_t count, std::span<std::byte> to) const;
};

constexpr std::uint64_t kNotAsked = 0;
constexpr std::uint64_t kNotThere = 1;

[[noreturn]] void refuse(const std::string& name, const std::string& fact, const std::string& hint = {}) {
  throw Error(ErrorKind::kData, name + ": " + fact, hint.empty() ? "copy or make the file again" : hint);
}

Handle kept(hid_t id, Handle::Close close, const std::string& name, const std::string& action) {
  if (id < 0) refuse(name, action + " failed: " + Library::reason());
  return {id, close};
}

/// Returns the name of a type as tensors have it, or "bytes" or "text". Empty for any other type.
std::string dtype_of(hid_t type) {
  const std::size_t bytes = H5Tget_size(type);
  const std::string bits = std::to_string(bytes * 8);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return (H5Tget_sign(type) == H5T_SGN_NONE ? "U" : "I") + bits;
    case H5T_FLOAT:
      return bytes == 4 || bytes == 8 ? "F" + bits : "";
    case H5T_STRING:
      return "text";
    case H5T_VLEN: {
      const Handle part(H5Tget_super(type), H5Tclose);
      return H5Tget_class(part.get()) == H5T_INTEGER && H5Tget_size(part.get()) == 1 ? "bytes" : "";
    }
    default:
      return "";
  }
}

Handle memory_type_of(hid_t type, const std::string& dtype) {
  if (dtype == "text") return {H5Tcopy(type), H5Tclose};
  if (dtype == "bytes") return {H5Tvlen_create(H5T_NATIVE_UCHAR), H5Tclose};
  return {H5Tget_native_type(type, H5T_DIR_ASCEND), H5Tclose};
}

std::vector<hsize_t> dimensions_of(hid_t space) {
  std::vector<hsize_t> sizes(static_cast<std::size_t>(std::max(H5Sget_simple_extent_ndims(space), 0)));
  if (!sizes.empty()) H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  return sizes;
}

/// Finds out whether rows can be read without the library. For that they must be uncompressed, in the machine's byte
/// order, and in chunks of whole rows.
void find_layout(OpenArray& state, hid_t file_type) {
  const bool is_same =
      H5Tequal(file_type, state.memory_type.get()) > 0 || (state.dtype == "text" && H5Tis_variable_str(file_type) == 0);
  if (!is_same || !state.file->is_plain || state.row_bytes == 0 || state.shape[0] == 0) return;
  const Handle list(H5Dget_create_plist(state.data.get()), H5Pclose);
  if (!list || H5Pget_nfilters(list.get()) != 0 || H5Pget_external_count(list.get()) != 0) return;
  const H5D_layout_t layout = H5Pget_layout(list.get());
  if (layout == H5D_CONTIGUOUS) {
    const haddr_t offset = H5Dget_offset(state.data.get());
    if (offset == HADDR_UNDEF) return;
    state.offset = offset;
    state.is_direct = true;
  } else if (layout == H5D_CHUNKED) {
    std::vector<hsize_t> chunk(state.shape.size());
    H5Pget_chunk(list.get(), static_cast<int>(chunk.size()), chunk.data());
    for (std::size_t i = 1; i < chunk.size(); ++i) {
      if (static_cast<std::int64_t>(chunk[i]) != state.shape[i]) return;
    }
    if (chunk[0] == 0) return;
    state.chunk_rows = static_cast<std::int64_t>(chunk[0]);
    state.chunks = std::vector<std::atomic<std::uint64_t>>(
        static_cast<std::size_t>((state.shape[0] + state.chunk_rows - 1) / state.chunk_rows));
    state.is_direct = true;
  }
}

void read_at(const OpenFile& file, std::uint64_t offset, std::span<std::byte> to, const std::string& name) {
  while (!to.empty()) {
    const ssize_t got = ::pread(file.bytes.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw io_error("read", file.path, errno);
    if (got == 0) refuse(name, "the file is cut short: it ends before the array's byte " + std::to_string(offset));
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

struct HyperSlab {
  Handle in_file;
  Handle in_memory;
};

HyperSlab slab_of(const OpenArray& state, std::int64_t first, std::int64_t count) {
  HyperSlab slab{{H5Dget_space(state.data.get()), H5Sclose}, {}};
  std::vector<hsize_t> begin(state.shape.size(), 0);
  std::vector<hsize_t> size(state.shape.begin(), state.shape.end());
  begin[0] = static_cast<hsize_t>(first);
  size[0] = static_cast<hsize_t>(count);
  H5Sselect_hyperslab(slab.in_file.get(), H5S_SELECT_SET, begin.data(), nullptr, size.data(), nullptr);
  slab.in_memory = Handle(H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr), H5Sclose);
  return slab;
}

void require_rows(const OpenArray& state, std::int64_t first, std::int64_t count) {
  LOCKSTEP_ASSERT(!state.shape.empty() && first >= 0 && count >= 0 && first <= state.shape[0] &&
                  count <= state.shape[0] - first);
}

std::uint64_t OpenArray::chunk_offset(std::int64_t chunk) const {
  std::atomic<std::uint64_t>& known = chunks[static_cast<std::size_t>(chunk)];
  if (const std::uint64_t place = known.load(std::memory_order_relaxed); place != kNotAsked) return place;
  const Library library;
  std::vector<hsize_t> first_row(shape.size(), 0);
  first_row[0] = static_cast<hsize_t>(chunk) * static_cast<hsize_t>(chunk_rows);
  unsigned filters = 0;
  haddr_t address = HADDR_UNDEF;
  hsize_t bytes = 0;
  if (H5Dget_chunk_info_by_coord(data.get(), first_row.data(), &filters, &address, &bytes) < 0) {
    refuse(name, "asking for a chunk failed: " + Library::reason());
  }
  const bool is_there = address != HADDR_UNDEF && bytes == static_cast<std::uint64_t>(chunk_rows) * row_bytes;
  const std::uint64_t place = is_there ? address : kNotThere;
  known.store(place, std::memory_order_relaxed);
  return place;
}

void OpenArray::read_by_library(std::int64_t first, std::int64_t count, std::span<std::byte> to) const {
  if (count == 0) return;
  LOCKSTEP_ASSERT(to.size() == static_cast<std::size_t>(count) * row_bytes);
  const Library library;
  const HyperSlab slab = slab_of(*this, first, count);
  if (H5Dread(data.get(), memory_type.get(), slab.in_memory.get(), slab.in_file.get(), H5P_DEFAULT, to.data()) < 0) {
    refuse(name, "reading rows from " + std::to_string(first) + " on failed: " + Library::reason());
  }
}

void OpenArray::read_rows(std::int64_t first, std::int64_t count, std::span<std::byte> to) const {
  require_rows(*this, first, count);
  LOCKSTEP_ASSERT(to.size() == static_cast<std::size_t>(count) * row_bytes);
  if (!is_direct) return read_by_library(first, count, to);
  const auto bytes_of = [&](std::int64_t rows) { return static_cast<std::size_t>(rows) * row_bytes; };
  if (chunk_rows == 0) return read_at(*file, offset + bytes_of(first), to, name);
  while (count > 0) {
    const std::int64_t within = first % chunk_rows;
    const std::int64_t rows = std::min(count, chunk_rows - within);
    const std::uint64_t chunk_start = chunk_offset(first / chunk_rows);
    if (chunk_start == kNotThere) {
      read_by_library(first, rows, to.first(bytes_of(rows)));
    } else {
      read_at(*file, chunk_start + bytes_of(within), to.first(bytes_of(rows)), name);
    }
    to = to.subspan(bytes_of(rows));
    first += rows;
    count -= rows;
  }
}

std::vector<std::byte> OpenArray::bytes_row(std::int64_t row) const {
  require_rows(*this, row, 1);
  LOCKSTEP_ASSERT(dtype == "bytes");
  const Library library;
  const HyperSlab slab = slab_of(*this, row, 1);
  hvl_t value{};
  const hid_t type = memory_type.get();
  if (H5Dread(data.get(), type, slab.in_memory.get(), slab.in_file.get(), H5P_DEFAULT, &value) < 0) {
    refuse(name, "reading row " + std::to_string(row) + " failed: " + Library::reason());
  }
  const auto* first = static_cast<const std::byte*>(value.p);
  std::vector<std::byte> bytes(first, first + value.len);
  H5Dvlen_reclaim(type, slab.in_memory.get(), H5P_DEFAULT, &value);
  return bytes;
}

std::vector<std::int64_t> OpenArray::integers() const {
  const bool is_integer = dtype[0] == 'I' || dtype[0] == 'U';
  if (!is_integer) refuse(name, "holds " + dtype + ", want integers");
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::vector<std::int64_t> numbers(count);
  const Library library;
  if (count > 0 && H5Dread(data.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()) < 0) {
    refuse(name, "reading it failed: " + Library::reason());
  }
  return numbers;
}

std::vector<std::string> OpenArray::texts() const {
  if (dtype != "text" || shape.size() != 1) refuse(name, "holds " + dtype + ", want a list of texts");
  const Library library;
  std::vector<std::string> texts;
  const auto count = static_cast<std::size_t>(shape[0]);
  if (count == 0) return texts;
  if (H5Tis_variable_str(memory_type.get()) > 0) {
    std::vector<char*> values(count);
    const HyperSlab slab = slab_of(*this, 0, shape[0]);
    if (H5Dread(data.get(), memory_type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0) {
      refuse(name, "reading it failed: " + Library::reason());
    }
    for (const char* value : values) texts.emplace_back(value != nullptr ? value : "");
    H5Dvlen_reclaim(memory_type.get(), slab.in_memory.get(), H5P_DEFAULT, values.data());
    return texts;
  }
  std::vector<std::byte> bytes(count * row_bytes);
  read_by_library(0, shape[0], bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const char* text = reinterpret_cast<const char*>(bytes.data()) + i * row_bytes;
    texts.emplace_back(text, ::strnlen(text, row_bytes));
  }
  return texts;
}

OpenFile::OpenFile(const std::filesystem::path& to_open) : path(to_open) {
  bytes = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!bytes) throw io_error("open", path, errno);
  const Library library;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7)
  // The file is opened without a lock. Parallel file systems often have no locks, and nobody writes to the file.
  H5Pset_file_locking(access.get(), false, true);
#endif
  file = Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!file) refuse(path.string(), "no HDF5 file, or a damaged one: " + Library::reason());
  const Handle creation(H5Fget_create_plist(file.get()), H5Pclose);
  hsize_t user_block = 0;
  is_plain = H5Pget_userblock(creation.get(), &user_block) >= 0 && user_block == 0;
}

/// Returns the kind of object at `name`. None of the groups on the path needs to exist.
H5O_type_t object_kind(hid_t file, const std::string& name) {
  for (std::size_t end = name.find('/', 1); end != std::string::npos; end = name.find('/', end + 1)) {
    if (H5Lexists(file, name.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return H5O_TYPE_UNKNOWN;
  }
  if (name != "/" && H5Lexists(file, name.c_str(), H5P_DEFAULT) <= 0) return H5O_TYPE_UNKNOWN;
  const Handle object(H5Oopen(file, name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object) return H5O_TYPE_UNKNOWN;
  switch (H5Iget_type(object.get())) {
    case H5I_GROUP:
      return H5O_TYPE_GROUP;
    case H5I_DATASET:
      return H5O_TYPE_DATASET;
    default:
      return H5O_TYPE_UNKNOWN;
  }
}

bool OpenFile::has_array(const std::string& name) const {
  const Library library;
  return object_kind(file.get(), name) == H5O_TYPE_DATASET;
}

bool OpenFile::has_group(const std::string& name) const {
  const Library library;
  return object_kind(file.get(), name) == H5O_TYPE_GROUP;
}

std::vector<std::string> OpenFile::names_in(const std::string& group) const {
  const Library library;
  const Handle opened(H5Gopen2(file.get(), group.c_str(), H5P_DEFAULT), H5Gclose);
  std::vector<std::string> names;
  if (!opened) return names;
  hsize_t place = 0;
  H5Literate(
      opened.get(), H5_INDEX_NAME, H5_ITER_INC, &place,
      [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
        static_cast<std::vector<std::string>*>(to)->emplace_back(name);
        return 0;
      },
      &names);
  return names;
}

std::shared_ptr<const Hdf5Array::State> OpenFile::array(const std::string& name) const {
  const Library library;
  auto state = std::make_shared<OpenArray>();
  state->file = shared_from_this();
  state->name = path.string() + ": '" + name + "'";
  state->data = kept(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), H5Dclose, state->name, "opening it");
  const Handle type = kept(H5Dget_type(state->data.get()), H5Tclose, state->name, "asking for its type");
  const Handle space = kept(H5Dget_space(state->data.get()), H5Sclose, state->name, "asking for its shape");
  state->dtype = dtype_of(type.get());
  if (state->dtype.empty()) {
    refuse(state->name, "its numbers are of a type that no tensor has", "store integers, floats, or bytes of images");
  }
  state->memory_type = memory_type_of(type.get(), state->dtype);
  if (!state->memory_type) refuse(state->name, "its type is damaged: " + Library::reason());
  for (const hsize_t size : dimensions_of(space.get())) state->shape.push_back(static_cast<std::int64_t>(size));
  if (state->shape.empty()) refuse(state->name, "a single value, want an array");
  const bool is_varied = state->dtype == "bytes" || (state->dtype == "text" && H5Tis_variable_str(type.get()) > 0);
  if (!is_varied) {
    state->row_bytes = H5Tget_size(state->memory_type.get());
    for (std::size_t i = 1; i < state->shape.size(); ++i) {
      if (__builtin_mul_overflow(state->row_bytes, static_cast<std::size_t>(state->shape[i]), &state->row_bytes)) {
        refuse(state->name, "its shape overflows 64 bits");
      }
    }
  }
  find_layout(*state, type.get());
  return state;
}

struct LinkedBackend final : Hdf5Backend {
  std::shared_ptr<const Hdf5File::State> open(const std::filesystem::path& path) const override {
    return std::make_shared<OpenFile>(path);
  }
  void make(const std::filesystem::path& path, const std::string& kind, std::vector<Hdf5Plan>& plans) const override {
    hdf5::make_file(path, kind, plans);
  }
};

}  // namespace
}  // namespace lockstep

extern "C" __attribute__((visibility("default"))) const lockstep::Hdf5Backend* lockstep_hdf5_backend_1() {
  static const lockstep::LinkedBackend backend;
  return &backend;
}
