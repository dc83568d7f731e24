// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cluster/job/submit_request.h"

namespace lockstep {

/// Checks that the flags of a submission can be combined.
///
/// Throws: Error(kUsage) for flags that exclude each other, and for values that have no meaning.
void check_request(const SubmitRequest& request);

}  // namespace lockstep
