// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace lockstep {

/// A zip file in memory. Uncompressed entries, as torch.save writes them, are views of it. unpack_zip() inflates
/// compressed ones. The class reads only the part of the zip format that weights and data sets need. No zip library is
/// used, since `lockstep` must start without one, and the common ones do not give an entry's position.
///
/// Source: PKWARE's APPNOTE.TXT 6.3, sections 4.3 and 4.5.3 (Zip64).
class ZipFile {
 public:
  /// `bytes` must outlive the object. `name` is for messages.
  ///
  /// Throws: Error(kData) if the bytes are not a complete zip file, or if its directory contradicts the file's size or
  ///         itself.
  ZipFile(std::span<const std::byte> bytes, std::string name);

  struct Entry {
    std::uint64_t header = 0;  ///< Position of the entry's own header.
    std::uint64_t bytes = 0;
    std::uint64_t packed_bytes = 0;  ///< As they lie in the file.
    std::uint32_t crc32 = 0;
    bool is_stored = false;    ///< Neither compressed nor encrypted.
    bool is_deflated = false;  ///< Compressed as zlib does, and not encrypted.
    bool is_plain = true;      ///< True for a file or a folder, false for a link or a device.
  };

  bool has(const std::string& entry) const { return entries_.contains(entry); }
  /// By name.
  const std::map<std::string, Entry>& entries() const { return entries_; }

  /// Returns the bytes of an entry after checking their checksum. Each call reads all of them.
  ///
  /// Throws: Error(kData) if there is no such entry, if it is compressed or encrypted, or if its checksum is wrong.
  std::span<const std::byte> entry(const std::string& entry) const;

  /// Returns an entry's bytes as they are in the file, compressed or not. The checksum is not checked.
  ///
  /// Throws: Error(kData) if there is no such entry, or if it is not at the position that the directory gives.
  std::span<const std::byte> packed(const std::string& entry) const;

  /// True if `bytes` begin like a zip file.
  static bool is_zip(std::span<const std::byte> bytes);

 private:
  struct Directory;
  Directory found_directory() const;
  void read_entry(std::uint64_t& at);

  std::span<const std::byte> bytes_;
  std::string name_;
  std::map<std::string, Entry> entries_;
};

}  // namespace lockstep
