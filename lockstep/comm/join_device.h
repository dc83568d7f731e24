// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"

namespace lockstep {

/// Checks that no two ranks use one device, unless that is allowed. Then opens the communication between devices.
///
/// Collective: yes. Throws: Error(kEnvironment) on every rank if a device is shared; Error(kPeer) if a rank is lost.
void connect_devices(Group& group, bool may_share, std::chrono::milliseconds timeout);

/// Returns a key that identifies a device. All processes on this device get the same key, whatever index each has for
/// it. `machine` identifies the node.
std::int64_t device_key(const std::string& machine, const DeviceFacts& device);

/// Returns the first set of ranks that use the same device, if there is one. `devices` has the key of each rank's
/// device.
std::vector<int> ranks_on_one_device(const std::vector<std::int64_t>& devices);

}  // namespace lockstep
