// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/job/submit_request.h"

namespace lockstep {

/// Holds the flags of a submission against each other.
///
/// Throws: Error(kUsage) for flags that do not go together, and for values that mean nothing.
void check_request(const SubmitRequest& request);

}  // namespace lockstep
