// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/comm/join.h"

namespace lockstep {

/// Checks that no two ranks use one device, unless that is allowed. Then opens the communication between devices.
///
/// Collective: yes. Throws: Error(kEnvironment) on every rank if a device is shared; Error(kPeer) if a rank is lost.
void connect_devices(Group& group, bool may_share, std::chrono::milliseconds timeout);

/// Connects all ranks as join() does, with a device from `device`. Tests have devices of their own.
///
/// Collective: yes. Throws: as join(), and what `device` throws.
Group join_with_device(const Placement& placement, const Environment& env, const JoinOptions& options,
                       const std::function<RankDevice()>& device);

/// Returns a key that identifies a device. All processes on this device get the same key, whatever index each has for
/// it. `machine` identifies the node.
std::int64_t device_key(const std::string& machine, const DeviceFacts& device);

/// Returns the first set of ranks that use the same device, if there is one. `devices` has the key of each rank's
/// device.
std::vector<int> ranks_on_one_device(const std::vector<std::int64_t>& devices);

}  // namespace lockstep
