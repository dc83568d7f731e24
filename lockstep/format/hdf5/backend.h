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

/// The interface of an array in liblockstep_hdf5.so. Its functions do what those of Hdf5Array do.
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

/// The interface of a file in liblockstep_hdf5.so. Its functions do what those of Hdf5File do.
struct Hdf5File::State {
  virtual ~State() = default;
  virtual bool has_array(const std::string& name) const = 0;
  virtual bool has_group(const std::string& name) const = 0;
  virtual std::vector<std::string> names_in(const std::string& group) const = 0;
  virtual std::shared_ptr<const Hdf5Array::State> array(const std::string& name) const = 0;
};

/// All functions that need libhdf5. They are in a separate library, loaded at the first use of an HDF5 file. libhdf5
/// loads some thirty others (curl and Kerberos among them), which would take half of every rank's start-up time.
struct Hdf5Backend {
  virtual ~Hdf5Backend() = default;
  virtual std::shared_ptr<const Hdf5File::State> open(const std::filesystem::path& path) const = 0;
  virtual void make(const std::filesystem::path& path, const std::string& kind, std::vector<Hdf5Plan>& plans) const = 0;
};

/// Returns the backend in the first of `folders` that has liblockstep_hdf5.so, or else from where the system's loader
/// finds it. The library stays loaded until the process ends.
///
/// Throws: Error(kEnvironment) if no library is found, or if it cannot be loaded.
const Hdf5Backend& load_hdf5_backend(std::span<const std::filesystem::path> folders);

}  // namespace lockstep

/// The one name that liblockstep_hdf5.so exports. The number goes up with a change of the structs above.
extern "C" const lockstep::Hdf5Backend* lockstep_hdf5_backend_1();
