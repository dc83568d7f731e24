// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/models/network.h"

namespace lockstep {

/// Makes the residual network `options.name`, one of resnet18, 34, 50, 101 and 152. Names, and the random numbers drawn
/// for a seed, are torchvision's.
///
/// Throws: Error(kData) if a sample is not [channels, height, width]; Error(kRecipe) for an unknown stem.
std::shared_ptr<Network> make_resnet(const NetworkOptions& options);

}  // namespace lockstep
