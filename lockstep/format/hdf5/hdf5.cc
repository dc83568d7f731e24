// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/hdf5/hdf5.h"

#include <dlfcn.h>

#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/own_file.h"
#include "lockstep/format/hdf5/backend.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "liblockstep_hdf5.so";

[[noreturn]] void refuse(const std::string& fact, const std::string& hint) {
  throw Error(ErrorKind::kEnvironment, "HDF5 cannot be used: " + fact, hint);
}

fs::path place_of_library(std::span<const fs::path> folders) {
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    if (fs::exists(folder / kLibrary, ignored)) return folder / kLibrary;
  }
  return kLibrary;
}

const Hdf5Backend& backend() {
  static const Hdf5Backend& loaded = [&]() -> const Hdf5Backend& {
    const fs::path programs = own_file().parent_path();
    const std::array<fs::path, 2> folders{programs, (programs / LOCKSTEP_LIBRARIES_FROM_PROGRAMS).lexically_normal()};
    return load_hdf5_backend(folders);
  }();
  return loaded;
}

}  // namespace

const Hdf5Backend& load_hdf5_backend(std::span<const fs::path> folders) {
  const fs::path place = place_of_library(folders);
  void* library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* said = ::dlerror();
    const std::string reason = said != nullptr ? said : place.string() + " cannot be loaded";
    if (place.has_parent_path()) {
      refuse(reason,
             "install libhdf5 on this machine (or load the site's module hdf5); or use data.kind = \"folder\", which "
             "needs no HDF5");
    }
    std::string looked_in;
    for (const fs::path& folder : folders) looked_in += (looked_in.empty() ? "" : " nor in ") + folder.string();
    refuse(
        std::string(kLibrary) + " is neither in " + looked_in + " (" + reason + ")",
        "this Lockstep was built without HDF5: install libhdf5-dev (or load the site's module hdf5) and build again; "
        "or use data.kind = \"folder\"");
  }
  const auto entry = reinterpret_cast<decltype(&lockstep_hdf5_backend_1)>(::dlsym(library, "lockstep_hdf5_backend_1"));
  if (entry == nullptr) {
    refuse(place.string() + " is of another Lockstep, or no such library", "install Lockstep as a whole again");
  }
  return *entry();
}

bool has_hdf5() {
  try {
    backend();
    return true;
  } catch (const Error&) {
    return false;
  }
}

const std::string& Hdf5Array::name() const { return state_->name; }
const std::string& Hdf5Array::dtype() const { return state_->dtype; }
const std::vector<std::int64_t>& Hdf5Array::shape() const { return state_->shape; }
std::size_t Hdf5Array::row_bytes() const { return state_->row_bytes; }
bool Hdf5Array::is_direct() const { return state_->is_direct; }

void Hdf5Array::read_rows(std::int64_t first, std::int64_t count, std::span<std::byte> to) const {
  state_->read_rows(first, count, to);
}

std::vector<std::byte> Hdf5Array::bytes_row(std::int64_t row) const { return state_->bytes_row(row); }
std::vector<std::int64_t> Hdf5Array::integers() const { return state_->integers(); }
std::vector<std::string> Hdf5Array::texts() const { return state_->texts(); }

Hdf5File::Hdf5File(const fs::path& path) : state_(backend().open(path)) {}
bool Hdf5File::has_array(const std::string& name) const { return state_->has_array(name); }
bool Hdf5File::has_group(const std::string& name) const { return state_->has_group(name); }
std::vector<std::string> Hdf5File::names_in(const std::string& group) const { return state_->names_in(group); }
Hdf5Array Hdf5File::array(const std::string& name) const { return Hdf5Array(state_->array(name)); }

void make_hdf5(const fs::path& path, const std::string& kind, std::vector<Hdf5Plan>& plans) {
  backend().make(path, kind, plans);
}

}  // namespace lockstep
