// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Reads and writes tensors in the safetensors format, as PyTorch and Hugging Face do.
///
///     const auto file = lockstep::SafetensorsFile::open("model.safetensors");
///     for (const auto& tensor : file.tensors()) std::cout << tensor.name << " " << tensor.dtype << "\n";
///     if (const auto* bias = file.find("fc.bias")) std::cout << bias->bytes.size() << " bytes\n";

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

/// One tensor of a safetensors file, or one in memory to write.
struct TensorEntry {
  std::string name;
  std::string dtype;                 ///< The format's name, such as F32, BF16, I64 or BOOL.
  std::vector<std::int64_t> shape;   ///< Row-major. Empty for a single number.
  std::span<const std::byte> bytes;  ///< Little-endian, contiguous.
};

/// Returns the bytes of one element. `where` is for messages. Throws: Error(kData) naming an unknown dtype.
std::size_t dtype_bytes(std::string_view dtype, const std::string& where = "safetensors");

/// Writes the tensors to a descriptor, in one pass and without a copy of the data. The widest dtypes come first, so
/// every tensor is aligned in the file as PyTorch's reader wants it. Tensors of one width keep the order given. Each
/// entry's bytes must fit its dtype and shape, and no two entries may have the same name.
///
/// Throws: Error(kIo) if writing fails; Error(kBug) if the entries break these rules.
/// Source: the safetensors format: u64 header length, JSON padded with spaces to 8 bytes, data.
WrittenFile write_safetensors(int fd, const std::filesystem::path& path, std::span<const TensorEntry> tensors,
                              const std::map<std::string, std::string>& metadata = {});

/// A safetensors file, mapped into memory. The object must outlive its entries, which point into the mapping. In files
/// of other programs a tensor may be unaligned, so copy it with memcpy.
class SafetensorsFile {
 public:
  /// Throws: Error(kIo) if the file cannot be opened; Error(kData) with the tensor, the value found and the value
  ///         wanted, if the header is cut short, too long or not JSON, or if its offsets, dtypes or sizes are wrong or
  ///         tensors overlap.
  static SafetensorsFile open(const std::filesystem::path& path);
  /// Reads a safetensors file from bytes in memory, which must outlive the object. `name` is for messages. The fuzzer
  /// calls this function.
  static SafetensorsFile parse(std::span<const std::byte> bytes, const std::string& name);

  /// Returns the tensors in the order of their data.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  /// Returns the tensor of that name, or null if there is none.
  const TensorEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  SafetensorsFile() = default;

  MappedFile mapping_;
  std::vector<TensorEntry> tensors_;
  std::unordered_map<std::string_view, std::size_t> places_;  ///< Indices into tensors_, by name.
  std::map<std::string, std::string> metadata_;
};

}  // namespace lockstep
