// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/data/sample_source.h"

namespace lockstep {

/// The numbers that describe a read of cached samples. The first is the sample. If pixels move, there are three more,
/// the first column and row to take, counted from the margin's corner, and 1 if the part is mirrored.
inline constexpr std::int64_t kPlaceNumbers = 1;
inline constexpr std::int64_t kMovedPlaceNumbers = 4;

/// Yields sample indices only, as one field "place" I64 [1] or [4]. A loader uses it if the samples are cached on the
/// device. `source` and its FixedSamples must outlive it.
std::unique_ptr<SampleSource> index_source(const SampleSource& source, FixedSamples fixed);

}  // namespace lockstep
