// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/data/transform/transform.h"
#include "lockstep/format/image/image.h"

namespace lockstep {

/// How one sample of a batch is mixed with another. Its loss is `own` times that for its own label and the rest times
/// that for the partner's.
struct Mix {
  double own = 1;
  std::int64_t partner = 0;  ///< Place in the epoch's order.
  bool is_cut = false;  ///< The partner's pixels replace those in `box`; else every pixel is own·x + (1 - own)·partner.
  ImageArea box;        ///< May be empty.
};

/// The mix of the sample at `place` of the epoch's order, of images of `size`: places 2k and 2k + 1 are partners and
/// mix each with the other in the same way, drawn from (seed, epoch, k) alone. So the pixels are those of any number of
/// ranks, as long as no rank's part begins at an odd place; where the partner is not in the rank's part, the caller
/// leaves the sample as it is.
///
/// The share is drawn from Beta(alpha, alpha); where both alphas are set, either kind with probability 1/2. The box is
/// that of torchvision's CutMix: its centre uniform, cut at the border, `own` the share that it leaves.
/// LOCKSTEP_ASSERT: one alpha is above 0.
Mix drawn_mix(const Mixing& mixing, std::uint64_t seed, std::int64_t epoch, std::int64_t place, ImageSize size);

}  // namespace lockstep
