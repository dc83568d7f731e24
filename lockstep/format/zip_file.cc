// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/zip_file.h"

#include <zip.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/format/pickle_value.h"

namespace lockstep {

/// What libzip reads from. It has no call that tells where an entry's data lie in the file: the source keeps where it
/// was last read.
struct StoredZip::Source {
  std::span<const std::byte> bytes;
  std::uint64_t at = 0;
  std::optional<std::uint64_t> first_read;
  zip_error_t error{};

  zip_int64_t read(void* to, zip_uint64_t count) {
    if (!first_read) first_read = at;
    count = std::min<zip_uint64_t>(count, bytes.size() - at);
    if (count > 0) std::memcpy(to, bytes.data() + at, count);
    at += count;
    return static_cast<zip_int64_t>(count);
  }

  zip_int64_t seek(void* data, zip_uint64_t size) {
    const zip_int64_t to = zip_source_seek_compute_offset(at, bytes.size(), data, size, &error);
    if (to < 0) return -1;
    at = static_cast<std::uint64_t>(to);
    return 0;
  }

  zip_int64_t stat(void* data) const {
    auto* const found = static_cast<zip_stat_t*>(data);
    zip_stat_init(found);
    found->size = bytes.size();
    found->valid = ZIP_STAT_SIZE;
    return sizeof(*found);
  }

  static zip_int64_t answer(void* self, void* data, zip_uint64_t size, zip_source_cmd_t command) {
    auto& source = *static_cast<Source*>(self);
    switch (command) {
      case ZIP_SOURCE_OPEN:
        source.at = 0;
        return 0;
      case ZIP_SOURCE_READ:
        return source.read(data, size);
      case ZIP_SOURCE_SEEK:
        return source.seek(data, size);
      case ZIP_SOURCE_TELL:
        return static_cast<zip_int64_t>(source.at);
      case ZIP_SOURCE_STAT:
        return source.stat(data);
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&source.error, data, size);
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
                                              ZIP_SOURCE_SUPPORTS, -1);
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_FREE:
        return 0;
      default:
        zip_error_set(&source.error, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
  }
};

namespace {

constexpr std::string_view kDamaged = "the file is damaged or was not written whole; copy it again";

[[noreturn]] void fail(const std::string& where, const std::string& fact, std::string_view hint = kDamaged) {
  throw Error(ErrorKind::kData, where + ": " + fact, hint);
}

std::uint32_t crc32_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

std::string hex32(std::uint32_t value) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", value);
  return text.data();
}

}  // namespace

StoredZip::StoredZip(std::span<const std::byte> bytes, std::string name)
    : name_(std::move(name)), source_(std::make_unique<Source>()) {
  source_->bytes = bytes;
  zip_error_t error;
  zip_error_init(&error);
  const auto fail_open = [&](const std::string& what) {
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    fail(name_, what + ": " + reason);
  };
  zip_source_t* const source = zip_source_function_create(&Source::answer, source_.get(), &error);
  if (source == nullptr) fail_open("no memory for the zip file");
  zip_ = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (zip_ == nullptr) {
    zip_source_free(source);
    fail_open("it is no whole zip file");
  }
  const auto count = static_cast<zip_uint64_t>(zip_get_num_entries(zip_, 0));
  for (zip_uint64_t i = 0; i < count; ++i) {
    const char* const entry = zip_get_name(zip_, i, ZIP_FL_ENC_RAW);
    names_.emplace_back(entry == nullptr ? "" : entry);
    if (!places_.emplace(names_.back(), i).second) {
      zip_discard(std::exchange(zip_, nullptr));
      fail(name_, "the entry '" + pickle_text(names_.back()) + "' is there twice, want each once");
    }
  }
}

StoredZip::~StoredZip() {
  if (zip_ != nullptr) zip_discard(zip_);
}

StoredZip::StoredZip(StoredZip&& other) noexcept
    : name_(std::move(other.name_)),
      source_(std::move(other.source_)),
      zip_(std::exchange(other.zip_, nullptr)),
      names_(std::move(other.names_)),
      places_(std::move(other.places_)) {}

StoredZip& StoredZip::operator=(StoredZip&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(source_, other.source_);
  std::swap(zip_, other.zip_);
  std::swap(names_, other.names_);
  std::swap(places_, other.places_);
  return *this;
}

std::span<const std::byte> StoredZip::entry(const std::string& entry) const {
  const std::string where = name_ + ": entry '" + pickle_text(entry) + "'";
  const auto place = places_.find(entry);
  if (place == places_.end()) fail(where, "is missing");
  zip_stat_t stat;
  if (zip_stat_index(zip_, place->second, 0, &stat) != 0) fail(where, zip_strerror(zip_));
  if (stat.comp_method != ZIP_CM_STORE || stat.encryption_method != ZIP_EM_NONE) {
    fail(where, "is compressed or encrypted, want it stored as torch.save does",
         "load it in Python and torch.save() it again");
  }
  if (stat.comp_size != stat.size) fail(where, "has two sizes");
  if (stat.size == 0) return {};
  zip_file_t* const file = zip_fopen_index(zip_, place->second, 0);
  if (file == nullptr) fail(where, zip_strerror(zip_));
  source_->first_read.reset();
  std::byte byte{};
  const auto got = zip_fread(file, &byte, 1);
  zip_fclose(file);
  const auto at = source_->first_read;
  if (got != 1 || !at || stat.size > source_->bytes.size() - *at) fail(where, "ends before its last byte");
  const auto bytes = source_->bytes.subspan(*at, stat.size);
  if (const auto found = crc32_of(bytes); found != stat.crc) {
    fail(where, "has the checksum " + hex32(found) + ", want " + hex32(stat.crc),
         "the file is damaged; copy it again. torch.load does not look, and what torch.serialization.set_crc32_options"
         "(False) wrote has none: torch.load and torch.save such a file again");
  }
  return bytes;
}

bool StoredZip::is_zip(std::span<const std::byte> bytes) {
  constexpr std::array<unsigned char, 4> kMagic = {'P', 'K', 3, 4};
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

}  // namespace lockstep
