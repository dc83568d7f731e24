// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace lockstep {

/// Returns the middle value, or the mean of the two in the middle. LOCKSTEP_ASSERT: `values` is not empty.
double median_of(std::vector<double> values);

}  // namespace lockstep
