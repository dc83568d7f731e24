// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// An array of unsigned bytes in the IDX format, as MNIST comes in. Gzipped files are unpacked into memory.
struct IdxArray {
  std::vector<std::int64_t> shape;  ///< [N, 28, 28] for MNIST's images, [N] for its labels.
  std::vector<std::byte> bytes;     ///< Row-major, product(shape) bytes.

  std::int64_t size() const { return shape.empty() ? 0 : shape[0]; }
  std::size_t item_bytes() const;  ///< Bytes of one of the N items.
};

/// Reads `path`, plain or gzipped, told by its first two bytes and not by its name.
///
/// Throws: Error(kIo) where it cannot be read; Error(kData) with the value found and wanted where the magic number is
/// wrong, the type is not unsigned bytes, or the file is shorter or longer than its header says. Source: "The IDX file
/// format", on the MNIST database's page.
IdxArray read_idx(const std::filesystem::path& path);

/// The same from bytes in memory; `name` is for messages. The fuzzer's way in.
IdxArray parse_idx(std::span<const std::byte> bytes, const std::string& name);

}  // namespace lockstep
