// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/models/network.h"

namespace lockstep {

/// The residual network that `options.name` says, resnet18, 34, 50, 101 or 152: as torchvision's, names and random
/// numbers drawn for a seed included.
///
/// Throws: Error(kData) where a sample is not [channels, height, width]; Error(kRecipe) for an unknown stem.
std::shared_ptr<Network> make_resnet(const NetworkOptions& options);

}  // namespace lockstep
