// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/torch/zip_unpack.h"

#include <fcntl.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/format/mapped_file.h"
#include "lockstep/format/torch/pickle_value.h"
#include "lockstep/format/torch/zip_file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

[[noreturn]] void refuse(const std::string& where, const std::string& fact) {
  throw Error(ErrorKind::kData, where + ": " + fact, "fetch or copy the archive again, from a source that you trust");
}

bool is_folder(const std::string& name) { return name.ends_with('/'); }

void check_entry(const std::string& where, const std::string& name, const ZipFile::Entry& entry) {
  const fs::path path(name);
  const bool leaves =
      path.is_absolute() || std::ranges::any_of(path, [](const fs::path& part) { return part == ".."; });
  const bool is_odd = name.empty() || name.find('\\') != std::string::npos || name.find('\0') != std::string::npos;
  if (leaves || is_odd) refuse(where, "its name leaves the folder that it is unpacked in");
  if (!entry.is_plain) refuse(where, "is a link or a device, want files and folders alone");
  if (!entry.is_stored && !entry.is_deflated) refuse(where, "is encrypted, or compressed in a way that is not known");
}

/// Writes one entry to a file, and counts and checksums its bytes.
class EntryWriter {
 public:
  EntryWriter(const fs::path& path, std::string where, const ZipFile::Entry& entry)
      : path_(path), where_(std::move(where)), entry_(entry) {
    file_ = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file_) throw io_error("create", path, errno);
  }

  void put(Bytes bytes) {
    if (bytes.size() > entry_.bytes - written_) refuse(where_, "holds more than its directory says");
    write_all(file_.get(), bytes, path_);
    crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    written_ += bytes.size();
  }

  void finish() const {
    if (written_ != entry_.bytes) {
      refuse(where_, "has " + std::to_string(written_) + " bytes, want " + std::to_string(entry_.bytes));
    }
    if (crc_ != entry_.crc32) refuse(where_, "its checksum is another than the directory's");
  }

 private:
  fs::path path_;
  std::string where_;
  const ZipFile::Entry& entry_;
  FileDescriptor file_;
  std::uint64_t written_ = 0;
  uLong crc_ = 0;
};

/// zlib's state, which the destructor frees.
struct Inflater {
  // A negative number of window bits selects raw deflate data, without zlib's header.
  Inflater() { LOCKSTEP_ASSERT(::inflateInit2(&stream, -MAX_WBITS) == Z_OK); }
  ~Inflater() { ::inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
};

void inflate_to(EntryWriter& writer, Bytes packed, const std::string& where) {
  Inflater inflater;
  std::array<std::byte, 1U << 16U> buffer{};
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    const std::size_t given = std::min(packed.size(), kMost);
    // zlib does not change its input, but declares it without const.
    inflater.stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    inflater.stream.avail_in = static_cast<uInt>(given);
    inflater.stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    inflater.stream.avail_out = static_cast<uInt>(buffer.size());
    state = ::inflate(&inflater.stream, Z_NO_FLUSH);
    if (state != Z_OK && state != Z_STREAM_END) refuse(where, "its compressed bytes are damaged or cut short");
    packed = packed.subspan(given - inflater.stream.avail_in);
    writer.put(Bytes(buffer).first(buffer.size() - inflater.stream.avail_out));
  }
}

}  // namespace

void unpack_zip(const fs::path& archive, const fs::path& folder,
                const std::function<void(std::uint64_t done, std::uint64_t all)>& tell) {
  const MappedFile mapped(archive);
  const ZipFile zip(mapped.bytes(), archive.string());
  const auto where = [&](const std::string& name) { return archive.string() + ": '" + pickle_text(name) + "'"; };
  std::uint64_t all = 0;
  for (const auto& [name, entry] : zip.entries()) {
    check_entry(where(name), name, entry);
    all += entry.bytes;
  }
  std::uint64_t done = 0;
  for (const auto& [name, entry] : zip.entries()) {
    const fs::path path = folder / name;
    make_folder(is_folder(name) ? path : path.parent_path());
    if (is_folder(name)) continue;
    EntryWriter writer(path, where(name), entry);
    if (entry.is_stored) {
      writer.put(zip.packed(name));
    } else {
      inflate_to(writer, zip.packed(name), where(name));
    }
    writer.finish();
    done += entry.bytes;
    tell(done, all);
  }
}

}  // namespace lockstep
