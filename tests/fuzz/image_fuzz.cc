// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/format/image/image.h"

namespace {

using lockstep::ImageDecoder;

/// The time to decode an image grows with its pixels. With small images the fuzzer can try more of them.
constexpr int kMostSide = 512;

/// Decodes the right lower quarter. Its bytes must equal those of the whole image.
void check_part(std::span<const std::byte> bytes, const lockstep::Image& whole) {
  const int left = whole.size().width / 2;
  const int top = whole.size().height / 2;
  const lockstep::ImageArea area{left, top, whole.size().width - left, whole.size().height - top};
  const lockstep::Image part = ImageDecoder(bytes, "fuzz").decoded(area);
  for (int y = 0; y < area.height; ++y) {
    const std::uint8_t* row = part.row(y);
    LOCKSTEP_ASSERT(std::equal(row, row + part.row_bytes(), whole.row(top + y) + 3 * left));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    ImageDecoder decoder(bytes, "fuzz");
    if (decoder.size().width > kMostSide || decoder.size().height > kMostSide) return 0;
    check_part(bytes, decoder.decoded());
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::kData) throw;
  }
  return 0;
}
