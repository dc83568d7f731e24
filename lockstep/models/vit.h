// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/models/network.h"

namespace lockstep {

/// A vision transformer, vit_b_16 by default: as torchvision's, names and random numbers drawn for a seed included.
///
/// Throws: Error(kData) where a sample is not [channels, size, size] in whole patches; Error(kRecipe) for a setting out
/// of range.
std::shared_ptr<Network> make_vit(const NetworkOptions& options);

}  // namespace lockstep
