// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/transform/image_check.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

void require_images(const Field& field, const ImageTransforms& transforms) {
  std::vector<std::string> sizes;
  for (const auto size : field.shape) sizes.push_back(std::to_string(size));
  const auto found = "'" + field.name + "' of a sample is " + field.dtype + " [" + joined(sizes, ", ") + "]";
  const bool is_image = field.shape.size() == 3;
  if (transforms.normalisation) {
    if (!is_image || field.dtype != "U8") {
      throw Error(ErrorKind::kRecipe,
                  "data.transforms has normalize, and " + found + "; want U8 [channels, height, width]",
                  "leave normalize out, and scale the numbers in the file");
    }
    const auto wanted = std::ssize(transforms.normalisation->mean);
    if (wanted != 1 && wanted != field.shape[0]) {
      throw Error(ErrorKind::kRecipe,
                  "data.transforms has a normalize of " + std::to_string(wanted) + " channels, and the images have " +
                      std::to_string(field.shape[0]),
                  "give a mean and a deviation for each channel of the images");
    }
  }
  const bool mixes = transforms.mixing.mixup_alpha > 0 || transforms.mixing.cutmix_alpha > 0;
  if (!mixes || is_image) return;
  throw Error(ErrorKind::kRecipe,
              "data.transforms has mixup or cutmix, and " + found + "; want [channels, height, width]",
              "leave it out: it is for images");
}

}  // namespace lockstep
