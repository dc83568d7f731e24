// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/device/backend.h"

namespace lockstep {

/// Returns the backend of CPUs.
const DeviceBackend& cpu_backend();

}  // namespace lockstep
