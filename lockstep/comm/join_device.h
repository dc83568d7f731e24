// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"

namespace lockstep {

/// Sees to it that no two ranks have one device, unless they may, and opens the way that tensors on devices travel.
///
/// Collective: yes. Throws: Error(kEnvironment) on every rank if a device is shared; Error(kPeer).
void connect_devices(Group& group, bool may_share, std::chrono::milliseconds timeout);

/// Returns a key that is the same for all processes on one device, whatever its index is to each. `machine` identifies
/// the node.
std::int64_t device_key(const std::string& machine, const DeviceFacts& device);

/// Returns the first set of ranks with the same device, if there is one. `devices` names each rank's.
std::vector<int> ranks_on_one_device(const std::vector<std::int64_t>& devices);

}  // namespace lockstep
