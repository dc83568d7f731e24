// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// True if HDF5 files can be read and written on this machine. It loads the library for that, as the first use of a
/// file does.
bool has_hdf5();

/// An array in an HDF5 file. Its first dimension counts rows. The object keeps the file open.
class Hdf5Array {
 public:
  const std::string& name() const;   ///< "train.h5: '/x'", for messages.
  const std::string& dtype() const;  ///< The dtype under its name in safetensors, or "bytes" for rows of varied length,
                                     ///< or "text".
  const std::vector<std::int64_t>& shape() const;  ///< [rows, …]
  std::int64_t rows() const { return shape().empty() ? 0 : shape()[0]; }
  std::size_t row_bytes() const;  ///< 0 for rows of varied length.

  /// Reads rows [first, first + count), little-endian, into count * row_bytes() bytes.
  ///
  /// If the array is uncompressed, in one piece or in chunks of whole rows, the bytes are read without the HDF5
  /// library, which serves one thread at a time. Compressed and unusual arrays go through it.
  /// Threads: safe. Throws: Error(kData) if rows are missing in the file, Error(kIo) if the file cannot be read.
  void read_rows(std::int64_t first, std::int64_t count, std::span<std::byte> to) const;

  /// True if read_rows() reads the bytes without the HDF5 library.
  bool is_direct() const;

  /// Returns one row of an array of "bytes". Threads: safe, one at a time.
  std::vector<std::byte> bytes_row(std::int64_t row) const;

  /// Returns all numbers of an array of integers, without loss. Throws: Error(kData) if the array is not one of
  /// integers, or if a number exceeds int64.
  std::vector<std::int64_t> integers() const;

  /// Returns all rows of an array of "text".
  std::vector<std::string> texts() const;

  struct State;

 private:
  friend class Hdf5File;
  explicit Hdf5Array(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// An HDF5 file, opened for reading.
class Hdf5File {
 public:
  /// Throws: Error(kIo) if the file cannot be opened, Error(kData) if it is not an HDF5 file or is damaged,
  /// Error(kEnvironment) if liblockstep_hdf5.so, or the libhdf5 that it needs, is not there.
  explicit Hdf5File(const std::filesystem::path& path);

  /// True if the file has an array, or a group, of this name, such as "/train/images".
  bool has_array(const std::string& name) const;
  bool has_group(const std::string& name) const;

  /// Returns the names in a group, sorted.
  std::vector<std::string> names_in(const std::string& group) const;

  /// Opens an array. Throws: Error(kData) if there is no array of this name, or if no tensor can have its numbers'
  /// type.
  Hdf5Array array(const std::string& name) const;

  struct State;

 private:
  std::shared_ptr<const State> state_;
};

/// The plan of an array that is created without its numbers. The numbers are written later, at `offset` in the file.
struct Hdf5Plan {
  std::string name;   ///< "/train/index". Groups on the way are made.
  std::string dtype;  ///< U8 I64 U64, or "text" for texts of `text_bytes` bytes, padded with 0.
  std::vector<std::int64_t> shape;
  std::size_t text_bytes = 0;
  std::uint64_t offset = 0;  ///< Offset of the array's bytes in the file, set by make_hdf5().
};

/// Creates a file of uncompressed, contiguous arrays of zeros, and closes it. From then on the file is a valid HDF5
/// file, even if the program ends. The arrays' bytes are written in place later, without the library. `kind` is stored
/// as the attribute "format" of the root.
///
/// Throws: Error(kIo) if the file cannot be written, Error(kEnvironment) if there is no HDF5 library.
void make_hdf5(const std::filesystem::path& path, const std::string& kind, std::vector<Hdf5Plan>& plans);

}  // namespace lockstep
