// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/file.h"

namespace lockstep {

/// One tensor's place in a safetensors file, or in memory to be written.
struct TensorEntry {
  std::string name;
  std::string dtype;                ///< As the format names it: F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL.
  std::vector<std::int64_t> shape;  ///< Row-major; empty for a single number.
  std::span<const std::byte> bytes; ///< Little-endian, contiguous.
};

/// Bytes of one element. Throws: Error(kData) naming an unknown dtype.
std::size_t dtype_bytes(std::string_view dtype);

/// Bytes written and their checksum, for a manifest.
struct WrittenFile {
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;
};

/// Writes the tensors in the order given, to a descriptor, in one pass and without a copy of the data.
///
/// Throws: Error(kIo); LOCKSTEP_ASSERT where an entry's bytes do not fit its dtype and shape.
/// Source: the safetensors format: u64 header length, JSON padded with spaces to 8 bytes, data.
WrittenFile write_safetensors(int fd, const std::filesystem::path& path, std::span<const TensorEntry> tensors,
                              const std::map<std::string, std::string>& metadata = {});

/// A safetensors file, mapped into memory. Entries point into the mapping: the object must outlive them.
class SafetensorsFile {
 public:
  /// Throws: Error(kIo) where it cannot be opened; Error(kData) with the tensor, the value found and the value wanted where the
  /// header is cut short, too long, no JSON, or lies about offsets, dtypes, overlaps or sizes.
  static SafetensorsFile open(const std::filesystem::path& path);
  /// The same from bytes that must outlive the object; `name` is for messages. The fuzzer's way in.
  static SafetensorsFile parse(std::span<const std::byte> bytes, const std::string& name);

  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;

  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  /// Nothing where there is no such tensor.
  const TensorEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  SafetensorsFile() = default;

  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace lockstep
