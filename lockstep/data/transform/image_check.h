// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/sample_source.h"
#include "lockstep/data/transform/transform.h"

namespace lockstep {

/// Checks that a batch's transforms on the device fit the samples. A normalisation needs U8 images, with one number for
/// each channel or one number for all. Mixing needs images. `field` is the input after the other transforms.
///
/// Throws: Error(kRecipe).
void require_images(const Field& field, const ImageTransforms& transforms);

}  // namespace lockstep
