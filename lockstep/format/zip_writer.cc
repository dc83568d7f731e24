// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/zip_writer.h"

#include <zip.h>

#include <cerrno>
#include <limits>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kHeaderBytes = 30;
constexpr std::uint64_t kExtraHeaderBytes = 4;
constexpr std::uint64_t kZip64Bytes = 20;    // What an entry of 4 GiB or more has in its header besides.
constexpr zip_uint16_t kPaddingId = 0x4246;  // "FB", as torch.save writes.
constexpr zip_uint16_t kFirstDosDay = 0x21;  // 1980-01-01.

}  // namespace

ZipWriter::ZipWriter(std::filesystem::path path) : path_(std::move(path)) {
  int code = 0;
  zip_ = zip_open(path_.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (zip_ != nullptr) return;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const int number = zip_error_system_type(&error) == ZIP_ET_SYS ? zip_error_code_system(&error) : EIO;
  zip_error_fini(&error);
  throw io_error("create", path_, number == 0 ? EIO : number);
}

ZipWriter::~ZipWriter() {
  if (zip_ != nullptr) zip_discard(zip_);
}

void ZipWriter::fail(const std::string& action) {
  zip_error_t* const error = zip_get_error(zip_);
  const bool is_system = zip_error_system_type(error) == ZIP_ET_SYS && zip_error_code_system(error) != 0;
  throw is_system ? io_error(action, path_, zip_error_code_system(error))
                  : Error(ErrorKind::kIo, action + " '" + path_.string() + "' failed: " + zip_error_strerror(error),
                          "check the disk's space and the path's permissions");
}

void ZipWriter::add(const std::string& entry, std::span<const std::byte> bytes) {
  zip_source_t* const source = zip_source_buffer(zip_, bytes.data(), bytes.size(), 0);
  if (source == nullptr) fail("write");
  const zip_int64_t place = zip_file_add(zip_, entry.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (place < 0) {
    zip_source_free(source);
    fail("write");
  }
  const auto index = static_cast<zip_uint64_t>(place);
  const bool is_large = bytes.size() >= std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t start = at_ + kHeaderBytes + entry.size() + kExtraHeaderBytes + (is_large ? kZip64Bytes : 0);
  const std::vector<zip_uint8_t> padding((kAlignment - start % kAlignment) % kAlignment, 'Z');
  if (zip_set_file_compression(zip_, index, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(zip_, index, 0, kFirstDosDay, 0) != 0 ||
      zip_file_extra_field_set(zip_, index, kPaddingId, ZIP_EXTRA_FIELD_NEW, padding.data(),
                               static_cast<zip_uint16_t>(padding.size()), ZIP_FL_LOCAL) != 0) {
    fail("write");
  }
  at_ = start + padding.size() + bytes.size();
}

void ZipWriter::finish() {
  if (zip_close(zip_) != 0) fail("write");
  zip_ = nullptr;
}

}  // namespace lockstep
