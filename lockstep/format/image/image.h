// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Images in memory, and a decoder of JPEG and PNG that gives the same pixels as Pillow.
///
///     lockstep::ImageDecoder decoder(bytes, "cat.jpg");
///     std::cout << decoder.size().width << " x " << decoder.size().height << "\n";
///     const lockstep::Image image = decoder.decoded();
///     const std::uint8_t red = image.row(0)[0];

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep {

enum class ImageKind { kUnknown, kJpeg, kPng };

/// Number of bytes at a file's start that identify its kind.
inline constexpr std::size_t kImageKindBytes = 8;

/// Returns the kind that the first bytes identify. A file's name is not used.
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

/// Pixels in rows from the top, without gaps. Each pixel is `channels` bytes, RGB or grey. A new image is not zeroed.
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

/// The most pixels of an image. A larger one is refused. It is half a GiB as RGB, and Pillow's limit too.
inline constexpr std::int64_t kMostPixels = 178'956'970;

/// Decodes a JPEG or PNG in memory. The constructor reads the header. decoded() decodes the whole image or a part.
///
/// The pixels are those of Pillow's convert("RGB"). Grey values are repeated for all three colours. CMYK is converted.
/// Transparency is dropped. Of 16 bits the upper 8 are kept. An EXIF orientation is ignored. The memory is limited by
/// kMostPixels, and by the pixels that a file of this size can hold. So a false header cannot reserve much memory.
class ImageDecoder {
 public:
  /// `bytes` must outlive the decoder. Messages begin with `name`, unless it is empty.
  /// Throws: Error(kData) if the bytes are neither JPEG nor PNG, or if the header is damaged, cut short, or promises
  ///         too many pixels.
  ImageDecoder(std::span<const std::byte> bytes, std::string name);
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  ImageKind kind() const;
  ImageSize size() const;

  /// Returns the image as RGB. Call one of the two decoded() once for each decoder.
  /// Throws: Error(kData) if the file is cut short or damaged.
  Image decoded();

  /// Returns the same pixels as that part of decoded(), in less time. Rows below `area` are not decoded. For these it
  /// only checks that the file has an end mark. `area` must lie inside the image and not be empty.
  Image decoded(ImageArea area);

  /// The interface of a decoder. Each kind of image has its own.
  class Codec;

 private:
  std::string name_;
  std::unique_ptr<Codec> codec_;
};

}  // namespace lockstep
