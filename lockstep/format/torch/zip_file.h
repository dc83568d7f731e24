// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace lockstep {

/// A zip file in memory. Entries that are stored and not compressed, as torch.save writes them, are views of it; what
/// is compressed unpack_zip() inflates. Of zip this is the part that weights and data sets need, and no more:
/// `lockstep` must start where no zip library is installed, and those that there are do not tell where an entry lies.
///
/// Source: PKWARE's APPNOTE.TXT 6.3, sections 4.3 and 4.5.3 (Zip64).
class ZipFile {
 public:
  /// `bytes` must outlive the object; `name` is for messages.
  ///
  /// Throws: Error(kData) where it is no whole zip file, or its directory contradicts the file's size or itself.
  ZipFile(std::span<const std::byte> bytes, std::string name);

  struct Entry {
    std::uint64_t header = 0;  ///< Where its own header lies.
    std::uint64_t bytes = 0;
    std::uint64_t packed_bytes = 0;  ///< As they lie in the file.
    std::uint32_t crc32 = 0;
    bool is_stored = false;    ///< Neither compressed nor encrypted.
    bool is_deflated = false;  ///< Compressed as zlib does, and not encrypted.
    bool is_plain = true;      ///< A file or a folder: no link, no device.
  };

  bool has(const std::string& entry) const { return entries_.contains(entry); }
  /// By name.
  const std::map<std::string, Entry>& entries() const { return entries_; }

  /// The bytes of an entry, once their checksum was found right. Each call reads them all.
  ///
  /// Throws: Error(kData) where there is no such entry, it is compressed or encrypted, or its checksum is another.
  std::span<const std::byte> entry(const std::string& entry) const;

  /// An entry's bytes as they lie in the file, compressed or not; no checksum is looked at.
  ///
  /// Throws: Error(kData) where there is no such entry, or it is not where the directory says.
  std::span<const std::byte> packed(const std::string& entry) const;

  /// Whether `bytes` start as a zip file does.
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
