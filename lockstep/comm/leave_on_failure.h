// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/comm/group.h"

namespace lockstep {

/// Calls `work`, and ensures that no rank waits for a rank on which `work` has thrown. Every rank calls this function.
///
/// If it throws on every rank, the group stays intact. If other ranks have not thrown within a second, or if a peer was
/// lost, this rank leaves the group. The others' collectives then throw Error(kPeer) with this rank and its reason. A
/// later collective of the group throws Error(kUsage) here. All ranks may join() again. Trainer::fit() calls this.
///
/// Objects that `work` made with the group, such as a DistributedDataParallel, must be destroyed before `work` returns
/// or throws.
///
/// Collective: yes. Blocks: for a second or two if `work` throws on this rank alone.
void leave_on_failure(Group& group, const std::function<void()>& work);

}  // namespace lockstep
