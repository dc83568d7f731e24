// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reads arrays in the IDX format, such as MNIST.
///
///     auto images = lockstep::read_idx("datasets/digits/train-images-idx3-ubyte.gz");
///     auto tensor = at::from_blob(images.bytes.data(), images.shape, at::kByte).clone();

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// An array of unsigned bytes in the IDX format. Gzipped files are unpacked into memory.
struct IdxArray {
  std::vector<std::int64_t> shape;  ///< [N, 28, 28] for MNIST's images, [N] for its labels.
  std::vector<std::byte> bytes;     ///< Row-major, product(shape) bytes.

  std::int64_t size() const { return shape.empty() ? 0 : shape[0]; }
  std::size_t item_bytes() const;  ///< Returns the bytes of one of the N items.
};

/// Reads `path`, plain or gzipped. The first two bytes of the file decide which, not its name.
///
/// Throws: Error(kIo) if the file cannot be read; Error(kData) with the value found and wanted, if the magic number is
/// wrong, the type is not unsigned bytes, or the file is shorter or longer than its header says.
/// Source: "The IDX file format", on the MNIST database's page.
IdxArray read_idx(const std::filesystem::path& path);

/// Reads an array from bytes in memory. `name` is for messages. The fuzzer calls this function.
IdxArray parse_idx(std::span<const std::byte> bytes, const std::string& name);

}  // namespace lockstep
