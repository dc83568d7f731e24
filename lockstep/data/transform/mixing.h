// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/data/transform/transform.h"
#include "lockstep/format/image/image.h"

namespace lockstep {

/// How one sample of a batch is mixed with another. The loss of a mixed sample is `own` times the loss for its own
/// label, plus (1 - `own`) times the loss for the partner's label.
struct Mix {
  double own = 1;
  std::int64_t partner = 0;  ///< Place in the epoch's order.
  bool is_cut = false;  ///< The partner's pixels replace those in `box`. Else every pixel is own·x + (1 - own)·partner.
  ImageArea box;        ///< May be empty.
};

/// Returns the mix of the sample at `place` of the epoch's order, for images of `size`. Places 2k and 2k + 1 are
/// partners, and each is mixed with the other in the same way, drawn from (seed, epoch, k) alone. So the pixels do not
/// depend on the number of ranks, as long as no rank's part begins at an odd place. If the partner is not in the rank's
/// part, the caller leaves the sample unchanged.
///
/// The share is drawn from Beta(alpha, alpha). If both alphas are set, each kind has probability 1/2. The box is drawn
/// as in torchvision's CutMix: its centre is uniform, and the image's border cuts it. `own` is the share of the image's
/// area outside the box. LOCKSTEP_ASSERT: one alpha is above 0.
Mix drawn_mix(const Mixing& mixing, std::uint64_t seed, std::int64_t epoch, std::int64_t place, ImageSize size);

}  // namespace lockstep
