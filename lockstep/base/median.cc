// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/median.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep {

double median_of(std::vector<double> values) {
  LOCKSTEP_ASSERT(!values.empty());
  std::ranges::sort(values);
  const auto middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace lockstep
