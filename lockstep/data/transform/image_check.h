// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/sample_source.h"
#include "lockstep/data/transform/transform.h"

namespace lockstep {

/// Checks that what the device does to a batch fits the samples: a normalisation wants U8 images and as many channels
/// as they have (or one for all), mixing wants images. `field` is the input as it comes out of the other transforms.
///
/// Throws: Error(kRecipe).
void require_images(const Field& field, const ImageTransforms& transforms);

}  // namespace lockstep
