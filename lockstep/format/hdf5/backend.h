// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/format/hdf5/hdf5.h"

namespace lockstep {

/// An array, as liblockstep_hdf5.so hands it over: what Hdf5Array promises.
struct Hdf5Array::State {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::size_t row_bytes = 0;
  bool is_direct = false;

  virtual ~State() = default;
  virtual void read_rows(std::int64_t first, std::int64_t count, std::span<std::byte> to) const = 0;
  virtual std::vector<std::byte> bytes_row(std::int64_t row) const = 0;
  virtual std::vector<std::int64_t> integers() const = 0;
  virtual std::vector<std::string> texts() const = 0;
};

/// A file, as liblockstep_hdf5.so hands it over: what Hdf5File promises.
struct Hdf5File::State {
  virtual ~State() = default;
  virtual bool has_array(const std::string& name) const = 0;
  virtual bool has_group(const std::string& name) const = 0;
  virtual std::vector<std::string> names_in(const std::string& group) const = 0;
  virtual std::shared_ptr<const Hdf5Array::State> array(const std::string& name) const = 0;
};

/// All that is linked with libhdf5. It lies in a library of its own, loaded by the first use of an HDF5 file: libhdf5
/// brings some thirty others along (curl and Kerberos among them), which would cost every rank half of its start.
struct Hdf5Backend {
  virtual ~Hdf5Backend() = default;
  virtual std::shared_ptr<const Hdf5File::State> open(const std::filesystem::path& path) const = 0;
  virtual void make(const std::filesystem::path& path, const std::string& kind, std::vector<Hdf5Plan>& plans) const = 0;
};

/// The backend in the first of `folders` that has liblockstep_hdf5.so, or else where the system's loader finds it. It
/// stays loaded to the end of the process.
///
/// Throws: Error(kEnvironment) where there is none, or it cannot be loaded.
const Hdf5Backend& load_hdf5_backend(std::span<const std::filesystem::path> folders);

}  // namespace lockstep

/// The one name that liblockstep_hdf5.so exports; the number goes up with a change of the structs above.
extern "C" const lockstep::Hdf5Backend* lockstep_hdf5_backend_1();
