// SPDX-License-Identifier: Apache-2.0
#include "lockstep/format/image/image.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/format/image/codec.h"
#include "lockstep/format/image/jpeg.h"
#include "lockstep/format/image/png.h"

namespace lockstep {
namespace {

constexpr auto kJpegMagic = std::to_array<unsigned char>({0xff, 0xd8, 0xff});
constexpr auto kPngMagic = std::to_array<unsigned char>({0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'});

bool starts_with(std::span<const std::byte> bytes, std::span<const unsigned char> magic) {
  return bytes.size() >= magic.size() && std::ranges::equal(bytes.first(magic.size()), std::as_bytes(magic));
}

/// Describes the first bytes of a file, such as "47 49 46 38 39 61 01 00 ('GIF89a..')".
std::string first_bytes_text(std::span<const std::byte> bytes) {
  std::string hex;
  std::string letters;
  for (const std::byte byte : bytes.first(std::min(bytes.size(), kImageKindBytes))) {
    const auto value = std::to_integer<unsigned char>(byte);
    hex += (hex.empty() ? "" : " ") + hex64(value).substr(14);
    letters += value >= 0x20 && value < 0x7f ? static_cast<char>(value) : '.';
  }
  return bytes.empty() ? "no bytes at all" : hex + " ('" + letters + "')";
}

std::string label_of(const std::string& name) { return name.empty() ? name : name + ": "; }

std::unique_ptr<ImageDecoder::Codec> codec_for(std::span<const std::byte> bytes, const std::string& name) {
  switch (image_kind(bytes)) {
    case ImageKind::kJpeg:
      return jpeg_codec(bytes, name);
    case ImageKind::kPng:
      return png_codec(bytes, name);
    case ImageKind::kUnknown:
      break;
  }
  throw Error(ErrorKind::kData,
              label_of(name) + "starts with " + first_bytes_text(bytes) + ", want a JPEG or PNG image",
              "remove the file or convert it");
}

}  // namespace

ImageKind image_kind(std::span<const std::byte> first) {
  if (starts_with(first, kJpegMagic)) return ImageKind::kJpeg;
  return starts_with(first, kPngMagic) ? ImageKind::kPng : ImageKind::kUnknown;
}

Image::Image(ImageSize size, int channels) : size_(size), channels_(channels) {
  LOCKSTEP_ASSERT(size.width >= 0 && size.height >= 0 && channels >= 1);
  pixels_ =
      std::make_unique_for_overwrite<std::uint8_t[]>(row_bytes() * static_cast<std::size_t>(size.height) + kSlack);
}

ImageDecoder::ImageDecoder(std::span<const std::byte> bytes, std::string name)
    : name_(std::move(name)), codec_(codec_for(bytes, name_)) {}
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

ImageKind ImageDecoder::kind() const { return codec_->kind(); }
ImageSize ImageDecoder::size() const { return codec_->size(); }
Image ImageDecoder::decoded() { return decoded({0, 0, size().width, size().height}); }

Image ImageDecoder::decoded(ImageArea area) {
  const ImageSize whole = size();
  LOCKSTEP_ASSERT(area.width >= 1 && area.height >= 1 && area.left >= 0 && area.top >= 0);
  LOCKSTEP_ASSERT(area.width <= whole.width - area.left && area.height <= whole.height - area.top);
  return codec_->decoded(area);
}

void refuse_image(const std::string& name, const std::string& fact) {
  throw Error(ErrorKind::kData, label_of(name) + fact, "copy or download the file again, or remove it");
}

void check_image_size(const std::string& name, std::uint64_t width, std::uint64_t height, std::uint64_t most_pixels) {
  const std::string size = "the header says " + std::to_string(width) + " x " + std::to_string(height) + " pixels, ";
  if (width == 0 || height == 0) refuse_image(name, size + "want at least 1 x 1");
  // The product cannot overflow, since both formats store a side in at most 32 bits.
  if (width * height > most_pixels) {
    refuse_image(name, size + "but a file of this length holds at most " + std::to_string(most_pixels) + " in all");
  }
  if (width * height > static_cast<std::uint64_t>(kMostPixels)) {
    throw Error(ErrorKind::kData, label_of(name) + size + "want at most " + std::to_string(kMostPixels) + " in all",
                "scale the image down");
  }
}

bool has_end_mark(std::span<const std::byte> bytes, std::span<const std::byte> mark) {
  return std::find_end(bytes.begin(), bytes.end(), mark.begin(), mark.end()) != bytes.end();
}

}  // namespace lockstep
