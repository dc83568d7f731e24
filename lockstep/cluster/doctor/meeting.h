// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "lockstep/cluster/doctor/nodes.h"
#include "lockstep/launch/rendezvous.h"
#include "lockstep/observe/wall_clock.h"

namespace lockstep {

/// The amount of data to send, and the longest time to spend.
struct MeetingOptions {
  std::chrono::milliseconds timeout{10'000};  ///< For the whole meeting.
  std::size_t link_bytes = std::size_t{16} << 20U;
  std::size_t sum_elements = std::size_t{1} << 17U;
  WallClock wall = [] { return std::chrono::system_clock::now(); };
};

/// Connects the tasks of a job over plain TCP. They exchange their findings, compare clocks, time the link from each
/// node to the next, and sum numbers over all nodes in a ring.
///
/// Collective: the tasks that `joins` names.
/// Blocks:  for `timeout` at most.
/// Returns: on rank 0 the results of all tasks, on other ranks nothing.
/// Throws: Error(kPeer) if rank 0 cannot be reached in time; Error(kEnvironment) if no port is free.
std::optional<JobReport> meeting(const Placement& at, const Endpoint& main, const TaskReport& self,
                                 const MeetingOptions& options = {});

/// True if this task takes part. A process can hold only so many connections. In a job with more tasks, one task of
/// each node takes part.
bool joins(const Placement& at);

}  // namespace lockstep
