// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/format/image/image.h"

namespace lockstep {

/// Change the colours of an image in place. Each function gives the same bytes as the function of that name in
/// torchvision.transforms.functional on uint8. A factor of 1 changes nothing. Hue is turned by `turn` of a circle, in
/// [-0.5, 0.5]. Grey images keep saturation and hue.
///
/// Source: torchvision 0.26, transforms/_functional_tensor.py; sums in float32 in its order.
void adjust_brightness(Image& image, double factor);
void adjust_contrast(Image& image, double factor);
void adjust_saturation(Image& image, double factor);
void adjust_hue(Image& image, double turn);

}  // namespace lockstep
