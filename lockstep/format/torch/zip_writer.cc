// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/torch/zip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/file.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kSeeExtra = 0xffffffff;
constexpr std::uint64_t kSeeEnd64 = 0xffff;
constexpr std::uint16_t kVersion = 45;         // Zip64.
constexpr std::uint16_t kPaddingId = 0x4246;   // "FB", as torch.save writes.
constexpr std::uint32_t kFirstDay = 0x210000;  // 1980-01-01 00:00 as DOS counts.

/// Writes numbers one after the other, lowest byte first.
class Record {
 public:
  template <typename Number>
  Record& put(Number value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Record& u16(std::uint64_t value) { return put(static_cast<std::uint16_t>(value)); }
  Record& u32(std::uint64_t value) { return put(static_cast<std::uint32_t>(value)); }
  Record& text(const std::string& value) {
    text_ += value;
    return *this;
  }
  const std::string& bytes() const { return text_; }

 private:
  std::string text_;
};

std::uint64_t narrow(std::uint64_t value) { return std::min(value, kSeeExtra); }

/// Writes the fields that an entry's headers share, which are version, flags, method, time, checksum, sizes and the
/// name's length.
void put_common(Record& record, std::uint32_t crc, std::uint64_t bytes, const std::string& name) {
  record.u16(kVersion).u16(0).u16(0).u32(kFirstDay).u32(crc).u32(narrow(bytes)).u32(narrow(bytes)).u16(name.size());
}

}  // namespace

void ZipWriter::write(const std::string& text) {
  write_all(fd_, std::as_bytes(std::span(text)), path_);
  at_ += text.size();
}

void ZipWriter::add(const std::string& entry, std::span<const std::byte> bytes) {
  const auto* const start = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto crc = static_cast<std::uint32_t>(::crc32_z(0, start, bytes.size()));
  const std::uint64_t header = at_;

  Record wide;  // The Zip64 field.
  if (bytes.size() >= kSeeExtra) wide.u16(1).u16(16).put(std::uint64_t{bytes.size()}).put(std::uint64_t{bytes.size()});
  const std::uint64_t unpadded = header + kLocalBytes + entry.size() + wide.bytes().size() + 4;
  const std::string padding((kAlignment - unpadded % kAlignment) % kAlignment, 'Z');
  Record local;
  local.u32(0x04034b50);
  put_common(local, crc, bytes.size(), entry);
  local.u16(wide.bytes().size() + 4 + padding.size()).text(entry).text(wide.bytes());
  local.u16(kPaddingId).u16(padding.size()).text(padding);
  write(local.bytes());
  write_all(fd_, bytes, path_);
  at_ += bytes.size();

  Record place;
  if (bytes.size() >= kSeeExtra) place.put(std::uint64_t{bytes.size()}).put(std::uint64_t{bytes.size()});
  if (header >= kSeeExtra) place.put(header);
  Record extra;
  if (!place.bytes().empty()) extra.u16(1).u16(place.bytes().size()).text(place.bytes());
  Record listed;
  listed.u32(0x02014b50).u16(kVersion);
  put_common(listed, crc, bytes.size(), entry);
  listed.u16(extra.bytes().size()).u16(0).u16(0).u16(0).u32(0).u32(narrow(header)).text(entry).text(extra.bytes());
  directory_ += listed.bytes();
  ++entries_;
}

void ZipWriter::finish() {
  const std::uint64_t directory = at_;
  write(directory_);
  const std::uint64_t bytes = directory_.size();
  Record end;
  if (entries_ >= kSeeEnd64 || directory >= kSeeExtra || bytes >= kSeeExtra) {
    const std::uint64_t end64 = at_;
    end.u32(0x06064b50).put(std::uint64_t{44}).u16(kVersion).u16(kVersion).u32(0).u32(0);
    end.put(entries_).put(entries_).put(bytes).put(directory);
    end.u32(0x07064b50).u32(0).put(end64).u32(1);
  }
  const std::uint64_t entries = std::min(entries_, kSeeEnd64);
  end.u32(0x06054b50).u16(0).u16(0).u16(entries).u16(entries).u32(narrow(bytes)).u32(narrow(directory)).u16(0);
  write(end.bytes());
}

}  // namespace lockstep
