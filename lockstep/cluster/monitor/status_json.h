// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lockstep/cluster/monitor/run_status.h"

namespace lockstep {

/// Returns a run's status as one object. docs/monitor.md has its keys.
nlohmann::json json_of(const RunStatus& status);

}  // namespace lockstep
