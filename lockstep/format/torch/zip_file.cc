// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/torch/zip_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/format/torch/pickle_value.h"

namespace lockstep {

/// The location of the zip directory, as the end of the file gives it.
struct ZipFile::Directory {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  std::uint64_t at = 0;
};

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint32_t kLocalMagic = 0x04034b50;
constexpr std::uint32_t kEntryMagic = 0x02014b50;
constexpr std::uint32_t kEndMagic = 0x06054b50;
constexpr std::uint32_t kEnd64Magic = 0x06064b50;
constexpr std::uint32_t kLocator64Magic = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kEntryBytes = 46;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kLocator64Bytes = 20;
constexpr std::uint64_t kMostComment = 0xffff;
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint32_t kSeeExtra = 0xffffffff;  // The value is too large for its field.
constexpr std::uint16_t kEncrypted = 1;
constexpr std::uint8_t kMadeByUnix = 3;
constexpr std::uint32_t kPlainFile = 8;  // The upper four bits of a Unix mode.
constexpr std::uint32_t kFolder = 4;

[[noreturn]] void fail(const std::string& where, const std::string& fact,
                       std::string_view hint = "the file is damaged or was not written whole; copy it again") {
  throw Error(ErrorKind::kData, where + ": " + fact, hint);
}

/// Returns the number at byte `at`, or nothing if the bytes end before.
template <typename Number>
std::optional<Number> number_at(Bytes bytes, std::uint64_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(Number)) return std::nullopt;
  Number value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string hex32(std::uint32_t value) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", value);
  return text.data();
}

/// Replaces values that did not fit into 32 bits by the 64-bit values in the Zip64 field, in the order that the format
/// gives.
bool read_zip64(Bytes extra, std::span<std::uint64_t* const> values) {
  const auto is_missing = [](const std::uint64_t* value) { return *value == kSeeExtra; };
  std::uint64_t at = 0;
  while (const auto id = number_at<std::uint16_t>(extra, at)) {
    const auto size = number_at<std::uint16_t>(extra, at + 2);
    if (!size || *size > extra.size() - at - 4) return false;
    const Bytes field = extra.subspan(at + 4, *size);
    at += 4 + std::uint64_t{*size};
    if (*id != kZip64Extra) continue;
    std::uint64_t within = 0;
    for (auto* value : values) {
      if (!is_missing(value)) continue;
      const auto wide = number_at<std::uint64_t>(field, within);
      if (!wide) return false;
      *value = *wide;
      within += sizeof *wide;
    }
    return true;
  }
  return std::ranges::none_of(values, is_missing);
}

}  // namespace

ZipFile::Directory ZipFile::found_directory() const {
  const std::uint64_t size = bytes_.size();
  for (std::uint64_t comment = 0; comment <= kMostComment && kEndBytes + comment <= size; ++comment) {
    const std::uint64_t end = size - kEndBytes - comment;
    if (number_at<std::uint32_t>(bytes_, end) != kEndMagic) continue;
    if (number_at<std::uint16_t>(bytes_, end + 20) != comment) continue;
    const auto place = end >= kLocator64Bytes ? end - kLocator64Bytes : 0;
    if (number_at<std::uint32_t>(bytes_, place) == kLocator64Magic) {
      const auto end64 = number_at<std::uint64_t>(bytes_, place + 8).value_or(0);
      if (number_at<std::uint32_t>(bytes_, end64) != kEnd64Magic)
        fail(name_, "the zip file's end is not where it says");
      return {.entries = number_at<std::uint64_t>(bytes_, end64 + 32).value_or(0),
              .bytes = number_at<std::uint64_t>(bytes_, end64 + 40).value_or(0),
              .at = number_at<std::uint64_t>(bytes_, end64 + 48).value_or(0)};
    }
    return {.entries = *number_at<std::uint16_t>(bytes_, end + 10),
            .bytes = *number_at<std::uint32_t>(bytes_, end + 12),
            .at = *number_at<std::uint32_t>(bytes_, end + 16)};
  }
  fail(name_, "it is no whole zip file: its directory is missing");
}

ZipFile::ZipFile(Bytes bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {
  const Directory directory = found_directory();
  std::uint64_t at = directory.at;
  for (std::uint64_t i = 0; i < directory.entries; ++i) read_entry(at);
  if (at - directory.at != directory.bytes) {
    fail(name_,
         "its directory has " + std::to_string(at - directory.at) + " bytes, want " + std::to_string(directory.bytes));
  }
}

void ZipFile::read_entry(std::uint64_t& at) {
  if (number_at<std::uint32_t>(bytes_, at) != kEntryMagic || bytes_.size() - at < kEntryBytes) {
    fail(name_, "its directory is not where it says, or ends too early");
  }
  const auto field = [&]<typename Number>(std::uint64_t offset, Number) {
    return *number_at<Number>(bytes_, at + offset);
  };
  const auto method = field(10, std::uint16_t{});
  const auto flags = field(8, std::uint16_t{});
  // If a Unix system made the zip file, the upper half of an entry's attributes is the file mode.
  const std::uint32_t kind = field(5, std::uint8_t{}) == kMadeByUnix ? (field(38, std::uint32_t{}) >> 28U) : 0;
  Entry entry{.header = field(42, std::uint32_t{}),
              .bytes = field(24, std::uint32_t{}),
              .packed_bytes = field(20, std::uint32_t{}),
              .crc32 = field(16, std::uint32_t{}),
              .is_stored = method == 0 && (flags & kEncrypted) == 0,
              .is_deflated = method == 8 && (flags & kEncrypted) == 0,
              .is_plain = kind == 0 || kind == kPlainFile || kind == kFolder};
  const std::uint64_t name_bytes = field(28, std::uint16_t{});
  const std::uint64_t extra_bytes = field(30, std::uint16_t{});
  const std::uint64_t size = kEntryBytes + name_bytes + extra_bytes + field(32, std::uint16_t{});
  if (size > bytes_.size() - at) fail(name_, "its directory ends too early");
  const Bytes text = bytes_.subspan(at + kEntryBytes, name_bytes);
  std::string name(reinterpret_cast<const char*>(text.data()), text.size());
  const std::array<std::uint64_t*, 3> wide = {&entry.bytes, &entry.packed_bytes, &entry.header};
  const bool has_sizes = read_zip64(bytes_.subspan(at + kEntryBytes + name_bytes, extra_bytes), wide);
  if (!has_sizes || (entry.is_stored && entry.packed_bytes != entry.bytes)) {
    fail(name_, "its directory contradicts itself on '" + pickle_text(name) + "'");
  }
  if (!entries_.emplace(name, entry).second) {
    fail(name_, "the entry '" + pickle_text(name) + "' is there twice, want each once");
  }
  at += size;
}

Bytes ZipFile::packed(const std::string& name) const {
  const std::string where = name_ + ": entry '" + pickle_text(name) + "'";
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail(where, "is missing");
  const Entry& entry = found->second;
  // The entry's own header repeats the name, but may leave the sizes to a record after the data. So the directory's are
  // used.
  const auto magic = number_at<std::uint32_t>(bytes_, entry.header);
  const auto name_bytes = number_at<std::uint16_t>(bytes_, entry.header + 26);
  const auto extra_bytes = number_at<std::uint16_t>(bytes_, entry.header + 28);
  if (magic != kLocalMagic || !extra_bytes) fail(where, "is not where the directory says");
  const std::uint64_t at = entry.header + kLocalBytes + *name_bytes + *extra_bytes;
  if (at > bytes_.size() || entry.packed_bytes > bytes_.size() - at) fail(where, "reaches beyond the file's end");
  if (*name_bytes != name.size() ||
      std::memcmp(bytes_.data() + entry.header + kLocalBytes, name.data(), name.size()) != 0) {
    fail(where, "has another name in its own header");
  }
  return bytes_.subspan(at, entry.packed_bytes);
}

Bytes ZipFile::entry(const std::string& name) const {
  const std::string where = name_ + ": entry '" + pickle_text(name) + "'";
  const auto found = entries_.find(name);
  if (found != entries_.end() && !found->second.is_stored) {
    fail(where, "is compressed or encrypted, want it stored as torch.save does",
         "load it in Python and torch.save() it again");
  }
  const Bytes bytes = packed(name);
  const auto* const start = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto crc = static_cast<std::uint32_t>(::crc32_z(0, start, bytes.size()));
  if (crc != found->second.crc32) {
    fail(where, "has the checksum " + hex32(crc) + ", want " + hex32(found->second.crc32),
         "the file is damaged; copy it again. torch.load does not look, and what torch.serialization.set_crc32_options"
         "(False) wrote has none: torch.load and torch.save such a file again");
  }
  return bytes;
}

bool ZipFile::is_zip(Bytes bytes) { return number_at<std::uint32_t>(bytes, 0) == kLocalMagic; }

}  // namespace lockstep
