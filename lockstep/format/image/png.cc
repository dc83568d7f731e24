// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/image/png.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/format/image/codec.h"

namespace lockstep {
namespace {

// zlib compresses at most 1032 : 1.
constexpr std::uint64_t kMostUnpackedPerByte = 1032;

/// State for libpng's C code. An error of libpng leaves by longjmp, which skips destructors. So functions that call
/// setjmp have no objects with destructors. They return false, and their callers throw.
struct Session {
  png_structp png;
  png_infop info;
  const std::byte* next;
  std::size_t left;
  int passes;
  char message[200];
};

[[noreturn]] void leave(png_structp png, png_const_charp message) {
  auto& session = *static_cast<Session*>(::png_get_error_ptr(png));
  std::snprintf(session.message, sizeof session.message, "%s", message);
  ::png_longjmp(png, 1);
}

void pass_over_warning(png_structp, png_const_charp) {}

void give_bytes(png_structp png, png_bytep to, png_size_t wanted) {
  auto& session = *static_cast<Session*>(::png_get_io_ptr(png));
  if (wanted > session.left) ::png_error(png, "the file is cut short");
  std::memcpy(to, session.next, wanted);
  session.next += wanted;
  session.left -= wanted;
}

bool read_header(Session& session) {
  session.png = ::png_create_read_struct(PNG_LIBPNG_VER_STRING, &session, leave, pass_over_warning);
  if (session.png == nullptr) return false;
  if (setjmp(png_jmpbuf(session.png)) != 0) return false;
  session.info = ::png_create_info_struct(session.png);
  ::png_set_read_fn(session.png, &session, give_bytes);
  // libpng's own limits on the size are turned off. The caller compares the size with the number of pixels that the
  // file can hold.
  ::png_set_user_limits(session.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  ::png_set_benign_errors(session.png, 1);
  ::png_read_info(session.png, session.info);
  return true;
}

bool start_rows(Session& session) {
  if (setjmp(png_jmpbuf(session.png)) != 0) return false;
  ::png_set_palette_to_rgb(session.png);
  ::png_set_expand_gray_1_2_4_to_8(session.png);
  ::png_set_strip_16(session.png);
  ::png_set_gray_to_rgb(session.png);
  ::png_set_strip_alpha(session.png);
  session.passes = ::png_set_interlace_handling(session.png);
  ::png_read_update_info(session.png, session.info);
  return true;
}

/// Reads all rows. An interlaced image has several passes, and each adds pixels to the rows of the passes before.
bool read_passes(Session& session, Image& whole) {
  if (setjmp(png_jmpbuf(session.png)) != 0) return false;
  for (int pass = 0; pass < session.passes; ++pass) {
    for (int y = 0; y < whole.size().height; ++y) ::png_read_row(session.png, whole.row(y), nullptr);
  }
  ::png_read_end(session.png, nullptr);
  return true;
}

bool read_part(Session& session, const ImageArea& area, png_bytep line, Image& image) {
  if (setjmp(png_jmpbuf(session.png)) != 0) return false;
  for (int y = 0; y < area.top; ++y) ::png_read_row(session.png, line, nullptr);
  for (int y = 0; y < area.height; ++y) {
    ::png_read_row(session.png, line, nullptr);
    std::memcpy(image.row(y), line + std::size_t{3} * static_cast<std::size_t>(area.left), image.row_bytes());
  }
  return true;
}

class PngCodec : public ImageDecoder::Codec {
 public:
  PngCodec(std::span<const std::byte> bytes, std::string name) : name_(std::move(name)) {
    session_.next = bytes.data();
    session_.left = bytes.size();
    try {
      if (!read_header(session_)) refuse_image(name_, std::string("damaged PNG header: ") + session_.message);
      check_size(bytes.size());
    } catch (...) {
      ::png_destroy_read_struct(&session_.png, &session_.info, nullptr);
      throw;
    }
  }
  ~PngCodec() override { ::png_destroy_read_struct(&session_.png, &session_.info, nullptr); }
  PngCodec(const PngCodec&) = delete;
  PngCodec& operator=(const PngCodec&) = delete;

  ImageKind kind() const override { return ImageKind::kPng; }
  ImageSize size() const override {
    return {static_cast<int>(::png_get_image_width(session_.png, session_.info)),
            static_cast<int>(::png_get_image_height(session_.png, session_.info))};
  }

  Image decoded(ImageArea area) override {
    require(start_rows(session_));
    LOCKSTEP_ASSERT(::png_get_rowbytes(session_.png, session_.info) == std::size_t{3} * size().width);
    Image image({area.width, area.height}, 3);
    const bool is_whole = area == ImageArea{0, 0, size().width, size().height};
    if (is_whole) {
      require(read_passes(session_, image));
    } else if (session_.passes == 1) {
      std::vector<png_byte> line(std::size_t{3} * static_cast<std::size_t>(size().width));
      require(read_part(session_, area, line.data(), image));
      require_end();
    } else {
      Image whole(size(), 3);
      require(read_passes(session_, whole));
      for (int y = 0; y < area.height; ++y) {
        const std::uint8_t* from = whole.row(area.top + y) + std::size_t{3} * static_cast<std::size_t>(area.left);
        std::memcpy(image.row(y), from, image.row_bytes());
      }
    }
    return image;
  }

 private:
  void require(bool is_done) const {
    if (!is_done) refuse_image(name_, std::string("damaged PNG: ") + session_.message);
  }

  void check_size(std::size_t file_bytes) const {
    const std::uint64_t bits = static_cast<std::uint64_t>(::png_get_bit_depth(session_.png, session_.info)) *
                               ::png_get_channels(session_.png, session_.info);
    check_image_size(name_, ::png_get_image_width(session_.png, session_.info),
                     ::png_get_image_height(session_.png, session_.info),
                     file_bytes * kMostUnpackedPerByte * 8 / std::max<std::uint64_t>(bits, 1));
  }

  /// Rows below the part were not decoded. A file that was cut among them is recognized by its missing end mark.
  void require_end() const {
    constexpr auto kEnd = std::to_array<std::byte>({std::byte{'I'}, std::byte{'E'}, std::byte{'N'}, std::byte{'D'}});
    if (!has_end_mark({session_.next, session_.left}, kEnd)) {
      refuse_image(name_, "damaged PNG: the file is cut short: no end mark");
    }
  }

  std::string name_;
  Session session_{};
};

}  // namespace

std::unique_ptr<ImageDecoder::Codec> png_codec(std::span<const std::byte> bytes, const std::string& name) {
  return std::make_unique<PngCodec>(bytes, name);
}

}  // namespace lockstep
