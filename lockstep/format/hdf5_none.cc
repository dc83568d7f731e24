// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/format/hdf5.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorKind::kEnvironment, "this Lockstep was built without HDF5",
              "install libhdf5-dev (or load the site's module hdf5) and build again; or use data.kind = \"folder\"");
}

}  // namespace

struct Hdf5Array::State {};
struct Hdf5File::State {};

bool has_hdf5() { return false; }

const std::string& Hdf5Array::name() const { refuse(); }
const std::string& Hdf5Array::dtype() const { refuse(); }
const std::vector<std::int64_t>& Hdf5Array::shape() const { refuse(); }
std::size_t Hdf5Array::row_bytes() const { refuse(); }
void Hdf5Array::read_rows(std::int64_t, std::int64_t, std::span<std::byte>) const { refuse(); }
bool Hdf5Array::is_direct() const { refuse(); }
std::vector<std::byte> Hdf5Array::bytes_row(std::int64_t) const { refuse(); }
std::vector<std::int64_t> Hdf5Array::integers() const { refuse(); }
std::vector<std::string> Hdf5Array::texts() const { refuse(); }

Hdf5File::Hdf5File(const std::filesystem::path&) { refuse(); }
bool Hdf5File::has_array(const std::string&) const { refuse(); }
bool Hdf5File::has_group(const std::string&) const { refuse(); }
std::vector<std::string> Hdf5File::names_in(const std::string&) const { refuse(); }
Hdf5Array Hdf5File::array(const std::string&) const { refuse(); }

void make_hdf5(const std::filesystem::path&, const std::string&, std::vector<Hdf5Plan>&) { refuse(); }

}  // namespace lockstep
