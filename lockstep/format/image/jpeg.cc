// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/image/jpeg.h"

#include <cstdio>  // jpeglib.h wants FILE

// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <limits>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/format/image/codec.h"

namespace lockstep {
namespace {

// For a progressive image libjpeg keeps all coefficients in memory, at most 6 bytes a pixel. It needs a little more for
// itself.
constexpr long kMostLibraryBytes = 6 * kMostPixels + (16L << 20U);
// No encoder makes more scans than this. Without a limit a small file could take minutes to decode.
constexpr int kMostScans = 500;
// With Huffman codes, each block of 64 pixels takes at least one bit.
constexpr std::uint64_t kMostPixelsPerByte = 512;

/// State for libjpeg's C code. An error of libjpeg leaves by longjmp, which skips destructors. So functions that call
/// setjmp have no objects with destructors. They return false, and their callers throw.
struct Session {
  jpeg_error_mgr errors;  // First, so that cinfo->err is the session's address.
  std::jmp_buf way_out;
  jpeg_progress_mgr progress;
  jpeg_decompress_struct jpeg;
  char message[JMSG_LENGTH_MAX];
};

Session& session_of(j_common_ptr jpeg) { return *reinterpret_cast<Session*>(jpeg->err); }

[[noreturn]] void leave(j_common_ptr jpeg) {
  Session& session = session_of(jpeg);
  session.errors.format_message(jpeg, session.message);
  std::longjmp(session.way_out, 1);
}

/// A warning that pixels are lost is an error. Other warnings, such as odd bytes between markers, are ignored.
void take_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      leave(jpeg);
    default:
      return;
  }
}

void watch_scans(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
  Session& session = session_of(jpeg);
  std::snprintf(session.message, sizeof session.message, "more than %d scans", kMostScans);
  std::longjmp(session.way_out, 1);
}

bool read_header(Session& session, std::span<const std::byte> bytes) {
  if (setjmp(session.way_out) != 0) return false;
  jpeg_create_decompress(&session.jpeg);
  session.jpeg.progress = &session.progress;
  session.jpeg.mem->max_memory_to_use = kMostLibraryBytes;
  jpeg_mem_src(&session.jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&session.jpeg, TRUE);
  return true;
}

/// The destination of the decoded rows of a part. The library writes a row into `line`, with columns from
/// `aligned_left` on. A CMYK image has 4 bytes for each pixel there.
struct Target {
  Image* image;
  ImageArea area;
  JDIMENSION aligned_left;
  unsigned char* line;
};

/// Converts CMYK to RGB as Pillow does. Adobe writes inverted values. They are inverted, then each colour is multiplied
/// by black, in fixed point.
void put_cmyk(const unsigned char* from, std::uint8_t* to, int pixels) {
  for (int i = 0; i < pixels; ++i, from += 4, to += 3) {
    const int black = from[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - from[c]) * black + 128;
      to[c] = static_cast<std::uint8_t>(std::clamp(black - ((product + (product >> 8)) >> 8), 0, 255));
    }
  }
}

/// Chooses the columns that the library decodes: the part, and more on each side. At a border the library has no
/// neighbouring block. It would then give other pixels than for the whole image, since it smooths colours with the next
/// block's. If a progressive image lacks scans, that block is itself estimated from two more.
void crop_columns(jpeg_decompress_struct& jpeg, const ImageArea& area, JDIMENSION& aligned_left) {
  const int blocks = jpeg.progressive_mode ? 3 : 1;
  const auto margin = static_cast<JDIMENSION>(blocks * jpeg.max_h_samp_factor * DCTSIZE);
  const auto left = static_cast<JDIMENSION>(area.left);
  const JDIMENSION right = std::min(jpeg.output_width, left + static_cast<JDIMENSION>(area.width) + margin);
  aligned_left = left > margin ? left - margin : 0;
  if (aligned_left == 0 && right == jpeg.output_width) return;
  JDIMENSION width = right - aligned_left;
  jpeg_crop_scanline(&jpeg, &aligned_left, &width);
}

bool start_rows(Session& session, Target& target) {
  if (setjmp(session.way_out) != 0) return false;
  jpeg_decompress_struct& jpeg = session.jpeg;
  const bool is_cmyk = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  jpeg.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&jpeg);
  crop_columns(jpeg, target.area, target.aligned_left);
  return true;
}

bool read_rows(Session& session, Target& target) {
  if (setjmp(session.way_out) != 0) return false;
  jpeg_decompress_struct& jpeg = session.jpeg;
  const ImageArea& area = target.area;
  const std::size_t first = static_cast<std::size_t>(static_cast<JDIMENSION>(area.left) - target.aligned_left) *
                            static_cast<std::size_t>(jpeg.output_components);
  const bool is_direct = jpeg.out_color_space == JCS_RGB && static_cast<int>(jpeg.output_width) == area.width;
  if (area.top > 0) jpeg_skip_scanlines(&jpeg, static_cast<JDIMENSION>(area.top));
  for (int y = 0; y < area.height; ++y) {
    std::uint8_t* to = target.image->row(y);
    JSAMPROW line = is_direct ? to : target.line;
    jpeg_read_scanlines(&jpeg, &line, 1);
    if (is_direct) continue;
    if (jpeg.out_color_space == JCS_CMYK) {
      put_cmyk(line + first, to, area.width);
    } else {
      std::memcpy(to, line + first, target.image->row_bytes());
    }
  }
  if (jpeg.output_scanline == jpeg.output_height) {
    jpeg_finish_decompress(&jpeg);
  }
  return true;
}

class JpegCodec : public ImageDecoder::Codec {
 public:
  JpegCodec(std::span<const std::byte> bytes, std::string name) : name_(std::move(name)) {
    if (bytes.size() > std::numeric_limits<unsigned long>::max()) refuse_image(name_, "larger than libjpeg can take");
    session_.jpeg.err = jpeg_std_error(&session_.errors);
    session_.errors.error_exit = leave;
    session_.errors.emit_message = take_message;
    session_.progress.progress_monitor = watch_scans;
    if (!read_header(session_, bytes)) {
      const std::string fact = session_.message;
      ::jpeg_destroy_decompress(&session_.jpeg);
      refuse_image(name_, "damaged JPEG header: " + fact);
    }
    try {
      const std::uint64_t most =
          session_.jpeg.arith_code != 0 ? std::numeric_limits<std::uint64_t>::max() : bytes.size() * kMostPixelsPerByte;
      check_image_size(name_, session_.jpeg.image_width, session_.jpeg.image_height, most);
    } catch (...) {
      ::jpeg_destroy_decompress(&session_.jpeg);
      throw;
    }
  }
  ~JpegCodec() override { ::jpeg_destroy_decompress(&session_.jpeg); }
  JpegCodec(const JpegCodec&) = delete;
  JpegCodec& operator=(const JpegCodec&) = delete;

  ImageKind kind() const override { return ImageKind::kJpeg; }
  ImageSize size() const override {
    return {static_cast<int>(session_.jpeg.image_width), static_cast<int>(session_.jpeg.image_height)};
  }

  Image decoded(ImageArea area) override {
    Image image({area.width, area.height}, 3);
    Target target{.image = &image, .area = area, .aligned_left = 0, .line = nullptr};
    require(start_rows(session_, target));
    std::vector<unsigned char> line(static_cast<std::size_t>(session_.jpeg.output_width) *
                                    static_cast<std::size_t>(session_.jpeg.output_components));
    target.line = line.data();
    require(read_rows(session_, target));
    require_end();
    return image;
  }

 private:
  void require(bool is_done) const {
    if (!is_done) refuse_image(name_, std::string("damaged JPEG: ") + session_.message);
  }

  /// Rows below the part were not decoded. A file that was cut among them is recognized by its missing end mark.
  void require_end() const {
    constexpr auto kEnd = std::to_array<std::byte>({std::byte{0xff}, std::byte{0xd9}});
    const jpeg_decompress_struct& jpeg = session_.jpeg;
    if (jpeg.output_scanline >= jpeg.output_height || jpeg.unread_marker == JPEG_EOI) return;
    if (::jpeg_input_complete(&session_.jpeg)) return;
    const std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(jpeg.src->next_input_byte),
                                          jpeg.src->bytes_in_buffer);
    if (!has_end_mark(rest, kEnd)) refuse_image(name_, "damaged JPEG: the file is cut short: no end mark");
  }

  std::string name_;
  mutable Session session_{};
};

}  // namespace

std::unique_ptr<ImageDecoder::Codec> jpeg_codec(std::span<const std::byte> bytes, const std::string& name) {
  return std::make_unique<JpegCodec>(bytes, name);
}

}  // namespace lockstep
