// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/models/network.h"

namespace lockstep {

/// Makes a vision transformer, by default vit_b_16. Names, and the random numbers drawn for a seed, are torchvision's.
///
/// Throws: Error(kData) if a sample is not [channels, size, size] in whole patches; Error(kRecipe) for a setting out of
/// range.
std::shared_ptr<Network> make_vit(const NetworkOptions& options);

}  // namespace lockstep
