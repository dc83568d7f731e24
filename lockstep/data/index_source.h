// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// Numbers that name a reading of kept samples: the sample; where pixels move, also the first column and row that are
/// taken, counted from the margin's corner, and 1 where the part is mirrored.
inline constexpr std::int64_t kPlaceNumbers = 1;
inline constexpr std::int64_t kMovedPlaceNumbers = 4;

/// What `source` reads, by name only: one field, "place" I64 [1] or [4]. For readers whose samples are kept elsewhere.
/// `source` and what it was taken apart into must outlive it.
std::unique_ptr<SampleSource> index_source(const SampleSource& source, FixedSamples fixed);

}  // namespace lockstep
