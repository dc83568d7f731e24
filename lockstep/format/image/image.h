// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep {

enum class ImageKind { kUnknown, kJpeg, kPng };

/// Bytes at a file's start that tell its kind.
inline constexpr std::size_t kImageKindBytes = 8;

/// What the first bytes say; a file's name is not asked.
ImageKind image_kind(std::span<const std::byte> first);

struct ImageSize {
  int width = 0;
  int height = 0;

  bool operator==(const ImageSize&) const = default;
};

/// A rectangle of an image.
struct ImageArea {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;

  bool operator==(const ImageArea&) const = default;
};

/// Pixels, rows from the top, without gaps: `channels` bytes each, RGB or grey. Not zeroed when made.
class Image {
 public:
  /// Readers may load this many bytes beyond the last pixel, so that they can take several pixels at once.
  static constexpr std::size_t kSlack = 16;

  Image() = default;
  Image(ImageSize size, int channels);

  ImageSize size() const { return size_; }
  int channels() const { return channels_; }
  std::size_t row_bytes() const { return static_cast<std::size_t>(size_.width) * static_cast<std::size_t>(channels_); }
  std::uint8_t* row(int y) { return pixels_.get() + row_bytes() * static_cast<std::size_t>(y); }
  const std::uint8_t* row(int y) const { return pixels_.get() + row_bytes() * static_cast<std::size_t>(y); }
  std::span<const std::uint8_t> bytes() const {
    return {pixels_.get(), row_bytes() * static_cast<std::size_t>(size_.height)};
  }

 private:
  ImageSize size_;
  int channels_ = 0;
  std::unique_ptr<std::uint8_t[]> pixels_;
};

/// An image that would take more is refused: half a GiB as RGB, Pillow's limit too.
inline constexpr std::int64_t kMostPixels = 178'956'970;

/// A JPEG or PNG in memory. The constructor reads the header, decoding comes after, for the whole or a part.
///
/// Gives what Pillow's convert("RGB") gives: grey is repeated, CMYK converted, transparency dropped, 16 bits cut to the
/// upper 8, an EXIF orientation left alone. Memory is bounded by kMostPixels, and by what so many bytes can hold at
/// all, so that a lying header costs nothing.
class ImageDecoder {
 public:
  /// `bytes` must outlive the decoder; `name` opens messages, nothing where it is empty.
  /// Throws: Error(kData) where they are neither JPEG nor PNG, or the header is damaged, cut short, or promises more
  /// pixels than it may.
  ImageDecoder(std::span<const std::byte> bytes, std::string name);
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  ImageKind kind() const;
  ImageSize size() const;

  /// RGB. Once for each decoder.
  /// Throws: Error(kData) where the file is cut short or damaged.
  Image decoded();

  /// The same bytes as that part of decoded() has, in less time: what lies below is not decoded, only known to have an
  /// end. Once for each decoder. LOCKSTEP_ASSERT: `area` lies inside the image and is not empty.
  Image decoded(ImageArea area);

  /// What a codec does; one for each kind.
  class Codec;

 private:
  std::string name_;
  std::unique_ptr<Codec> codec_;
};

}  // namespace lockstep
