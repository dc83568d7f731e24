// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/format/image/image.h"

namespace lockstep {

/// Scales an image to `size`, bilinear, with a support that grows with the reduction (antialias). The bytes are those
/// of Pillow 13's resize() with BILINEAR.
///
/// Source: Pillow, src/libImaging/Resample.c: two passes, 22-bit fixed-point weights, 8 bits between. The horizontal
/// pass goes first unless the height shrinks by more than twice what the width does (found by trying; before Pillow 12
/// it always does, which differs by 1 in some bytes).
Image resized(Image image, ImageSize size);

}  // namespace lockstep
