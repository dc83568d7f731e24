// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/transform/pixels.h"
#include "lockstep/data/transform/transform.h"
#include "lockstep/data/transform/transform_list.h"

namespace {

constexpr lockstep::ImageSize kImage = {.width = 24, .height = 16};
constexpr int kLargest = 256;

void apply(const lockstep::ImageTransforms& transforms, std::uint8_t byte) {
  const auto out = transforms.output_size(kImage);
  if (!out || out->width > kLargest || out->height > kLargest) return;
  LOCKSTEP_ASSERT(out->width > 0 && out->height > 0);
  lockstep::Image image(kImage, 3);
  for (int y = 0; y < kImage.height; ++y) std::fill_n(image.row(y), image.row_bytes(), byte);
  std::vector<std::uint8_t> to(std::size_t{3} * static_cast<std::size_t>(out->width) *
                               static_cast<std::size_t>(out->height));
  transforms.apply(view_of(image), {.seed = byte, .epoch = 0, .id = 0}, to.data());
}

}  // namespace

/// Each line of the bytes is one entry of a recipe's list of transforms.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto transforms = lockstep::parsed_transforms(lockstep::split(text, '\n'), "data.transforms");
    const auto steady = without_chance(transforms);
    LOCKSTEP_ASSERT(!steady.is_random());
    // A step that makes an image very large takes long and finds nothing more, so such lists are skipped.
    const bool is_short = transforms.steps.size() <= 4 && text.find_first_of("0123456789") != std::string_view::npos;
    if (!is_short) return 0;
    apply(transforms, size > 0 ? data[0] : 0);
    apply(steady, size > 0 ? data[0] : 0);
  } catch (const lockstep::Error& error) {
    const bool is_refusal = error.kind() == lockstep::ErrorKind::kData || error.kind() == lockstep::ErrorKind::kRecipe;
    if (!is_refusal) throw;
  }
  return 0;
}
