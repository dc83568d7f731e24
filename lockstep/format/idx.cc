// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/format/mapped_file.h"

namespace lockstep {
namespace {

constexpr std::size_t kMagicBytes = 4;
constexpr std::string_view kCopyAgain = "copy or download the file again";

[[noreturn]] void fail(const std::string& name, const std::string& fact, std::string_view hint = kCopyAgain) {
  throw Error(ErrorKind::kData, name + ": " + fact, hint);
}

std::string hex_byte(std::byte value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto number = std::to_integer<unsigned>(value);
  return {'0', 'x', kDigits[number >> 4U], kDigits[number & 15U]};
}

std::string type_name(std::byte type) {
  switch (std::to_integer<unsigned>(type)) {
    case 0x09:
      return " (signed bytes)";
    case 0x0b:
      return " (16-bit integers)";
    case 0x0c:
      return " (32-bit integers)";
    case 0x0d:
      return " (32-bit floats)";
    case 0x0e:
      return " (64-bit floats)";
    default:
      return "";
  }
}

/// Returns the number of bytes of the dimensions, which follow the magic number.
std::size_t dimension_bytes(std::span<const std::byte, kMagicBytes> magic, const std::string& name) {
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    fail(name, "the magic number starts with " + hex_byte(magic[0]) + " " + hex_byte(magic[1]) + ", want 0x00 0x00",
         "this is no IDX file; data.kind = \"idx\" reads files such as train-images-idx3-ubyte, plain or gzipped");
  }
  if (magic[2] != std::byte{0x08}) {
    fail(name, "the type is " + hex_byte(magic[2]) + type_name(magic[2]) + ", want 0x08 (unsigned bytes)",
         "write the array as unsigned bytes");
  }
  if (magic[3] == std::byte{0}) fail(name, "the array has 0 dimensions, want at least 1");
  return std::to_integer<std::size_t>(magic[3]) * 4;
}

std::vector<std::int64_t> shape_of(std::span<const std::byte> dimensions) {
  std::vector<std::int64_t> shape;
  for (std::size_t at = 0; at + 4 <= dimensions.size(); at += 4) {
    std::int64_t size = 0;
    for (const std::byte part : dimensions.subspan(at, 4)) size = size * 256 + std::to_integer<std::int64_t>(part);
    shape.push_back(size);
  }
  return shape;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const auto size : shape) text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text + "]";
}

std::size_t product(std::span<const std::int64_t> shape, const std::string& name) {
  std::size_t bytes = 1;
  // The first dimension, the number of items, comes last. Even if it is 0, the size of one item must not overflow.
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(*size), &bytes) ||
        bytes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())) {
      fail(name, "the shape " + shape_text({shape.begin(), shape.end()}) + " overflows 64 bits");
    }
  }
  return bytes;
}

/// Unpacks gzip members one after the other, and never more bytes than the caller asks for.
class Inflater {
 public:
  Inflater(std::span<const std::byte> packed, const std::string& name) : packed_(packed), name_(name) {
    constexpr int kGzipOnly = 15 + 16;
    if (::inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Unpacks into `out` until it is full or the stream ends. Returns the number of bytes unpacked.
  std::size_t read(std::span<std::byte> out) {
    std::size_t filled = 0;
    while (filled < out.size() && step(out.subspan(filled), filled)) {
    }
    return filled;
  }

  /// True if the last member was read to its end, where zlib checks its length and checksum.
  bool complete() const { return ended_; }

 private:
  // zlib counts bytes in 32 bits, so a call gets at most this many.
  static constexpr std::size_t kMost = std::size_t{1} << 30U;

  /// Unpacks some bytes. Returns false at the end of the stream.
  bool step(std::span<std::byte> out, std::size_t& filled) {
    if (ended_) {
      if (packed_.empty()) return false;
      ::inflateReset(&stream_);
      ended_ = false;
    }
    const std::size_t room = std::min(out.size(), kMost);
    const std::size_t given = std::min(packed_.size(), kMost);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed_.data()));
    stream_.avail_in = static_cast<uInt>(given);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    const std::size_t used = given - stream_.avail_in;
    const std::size_t made = room - stream_.avail_out;
    packed_ = packed_.subspan(used);
    filled += made;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    ended_ = result == Z_STREAM_END;
    if (ended_) return true;
    if (result != Z_OK && result != Z_BUF_ERROR) {
      fail(name_, std::string("the gzip stream is damaged: ") + (stream_.msg ? stream_.msg : "it needs a dictionary"));
    }
    return used + made > 0;
  }

  std::span<const std::byte> packed_;
  const std::string& name_;
  z_stream stream_{};
  bool ended_ = false;
};

IdxArray parse_plain(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kMagicBytes) {
    fail(name, "the file holds " + std::to_string(bytes.size()) + " bytes, want at least 4 for the magic number");
  }
  const std::size_t header = kMagicBytes + dimension_bytes(bytes.first<kMagicBytes>(), name);
  if (bytes.size() < header) {
    fail(name, "the file holds " + std::to_string(bytes.size()) + " bytes, want " + std::to_string(header) +
                   " for its header alone");
  }
  IdxArray array{.shape = shape_of(bytes.subspan(kMagicBytes, header - kMagicBytes)), .bytes = {}};
  const auto data = bytes.subspan(header);
  const std::size_t wanted = product(array.shape, name);
  if (data.size() != wanted) {
    fail(name, std::string("the file is ") + (data.size() < wanted ? "cut short" : "too long") + ": " +
                   std::to_string(data.size()) + " bytes of data, want " + std::to_string(wanted) + " for " +
                   shape_text(array.shape));
  }
  array.bytes.assign(data.begin(), data.end());
  return array;
}

IdxArray parse_gzip(std::span<const std::byte> packed, const std::string& name) {
  Inflater inflater(packed, name);
  std::array<std::byte, kMagicBytes> magic{};
  const std::size_t got_magic = inflater.read(magic);
  if (got_magic < kMagicBytes) {
    fail(name,
         "unpacked, the file holds " + std::to_string(got_magic) + " bytes, want at least 4 for the magic number");
  }
  std::vector<std::byte> dimensions(dimension_bytes(magic, name));
  const std::size_t got_dimensions = inflater.read(dimensions);
  if (got_dimensions < dimensions.size()) {
    fail(name, "unpacked, the file holds " + std::to_string(kMagicBytes + got_dimensions) + " bytes, want " +
                   std::to_string(kMagicBytes + dimensions.size()) + " for its header alone");
  }
  IdxArray array{.shape = shape_of(dimensions), .bytes = {}};
  const std::size_t wanted = product(array.shape, name);
  const std::string want = ", want " + std::to_string(wanted) + " for " + shape_text(array.shape);
  // One byte of deflate unpacks to at most 1032 bytes. This check keeps a small file from reserving much memory.
  constexpr std::size_t kBestRatio = 1032;
  if (wanted / kBestRatio > packed.size()) {
    fail(name, "the file is cut short: " + std::to_string(packed.size()) + " bytes of gzip unpack to at most " +
                   std::to_string(packed.size() * kBestRatio) + want);
  }
  array.bytes.resize(wanted);
  const std::size_t got = inflater.read(array.bytes);
  if (got < wanted) fail(name, "the file is cut short: unpacked, " + std::to_string(got) + " bytes of data" + want);
  // Asking for one byte more makes zlib reach the end of the stream, where it checks the checksum.
  std::array<std::byte, 1> more{};
  if (inflater.read(more) != 0) {
    fail(name, "the file is too long: unpacked, more than " + std::to_string(wanted) + " bytes of data" + want);
  }
  if (!inflater.complete()) fail(name, "the file is cut short: the gzip stream ends without its checksum");
  return array;
}

}  // namespace

std::size_t IdxArray::item_bytes() const {
  std::size_t product = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) product *= static_cast<std::size_t>(shape[i]);
  return product;
}

IdxArray read_idx(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_idx(file.bytes(), path.string());
}

IdxArray parse_idx(std::span<const std::byte> bytes, const std::string& name) {
  const bool gzipped = bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
  return gzipped ? parse_gzip(bytes, name) : parse_plain(bytes, name);
}

}  // namespace lockstep
