// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The backend of CPUs, which every build has.
///
///     const auto facts = lockstep::cpu_backend().runtime();
///     std::cout << facts.kind << "\n";  // CPU

#include "lockstep/device/backend.h"

namespace lockstep {

/// Returns the backend of CPUs.
const DeviceBackend& cpu_backend();

}  // namespace lockstep
