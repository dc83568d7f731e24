// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/format/hashed_file.h"
#include "lockstep/format/mapped_file.h"

namespace lockstep {

/// One tensor's place in a safetensors file, or in memory to be written.
struct TensorEntry {
  std::string name;
  std::string dtype;                 ///< As the format names it: F32, BF16, I64, BOOL…
  std::vector<std::int64_t> shape;   ///< Row-major; empty for a single number.
  std::span<const std::byte> bytes;  ///< Little-endian, contiguous.
};

/// Bytes of one element. Throws: Error(kData) naming an unknown dtype, and `where` it was found.
std::size_t dtype_bytes(std::string_view dtype, const std::string& where = "safetensors");

/// Writes the tensors to a descriptor, in one pass and without a copy of the data: the widest dtypes first, so that
/// every tensor is aligned in the file as PyTorch's reader wants it; those of one width in the order given.
///
/// Throws: Error(kIo); LOCKSTEP_ASSERT where an entry's bytes do not fit its dtype and shape, or two have one name.
/// Source: the safetensors format: u64 header length, JSON padded with spaces to 8 bytes, data.
WrittenFile write_safetensors(int fd, const std::filesystem::path& path, std::span<const TensorEntry> tensors,
                              const std::map<std::string, std::string>& metadata = {});

/// A safetensors file, mapped into memory. Entries point into the mapping: the object must outlive them. In a file of
/// another writer a tensor may lie at any address: copy it out with memcpy.
class SafetensorsFile {
 public:
  /// Throws: Error(kIo) where it cannot be opened; Error(kData) with the tensor, the value found and the value wanted
  /// where the header is cut short, too long, no JSON, or lies about offsets, dtypes, overlaps or sizes.
  static SafetensorsFile open(const std::filesystem::path& path);
  /// The same from bytes that must outlive the object; `name` is for messages. The fuzzer's way in.
  static SafetensorsFile parse(std::span<const std::byte> bytes, const std::string& name);

  /// In the order of their data.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  /// Nothing where there is no such tensor.
  const TensorEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  SafetensorsFile() = default;

  MappedFile mapping_;
  std::vector<TensorEntry> tensors_;
  std::unordered_map<std::string_view, std::size_t> places_;  ///< In tensors_, by the names there.
  std::map<std::string, std::string> metadata_;
};

}  // namespace lockstep
