// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/launch/placement.h"
#include "lockstep/launch/task_settings.h"

namespace lockstep {

/// Where a program's ranks meet: what MASTER_ADDR and MASTER_PORT are to say.
struct Rendezvous {
  Endpoint master{};
  std::filesystem::path published{};  ///< A file that tells it to the other nodes, to be removed at the end.
};

/// The port that all ranks of a start agree on without talking: MASTER_PORT; else the last of SLURM_STEP_RESV_PORTS,
/// since Cray's PMI takes the first ones; else one between 18432 and 30719, below those that the system gives away,
/// from the start's name. Nothing where a single rank has no such name: any free one will do.
///
/// Throws: Error(kEnvironment) where a variable holds no port, or where several ranks have nothing to agree by.
std::optional<int> agreed_port(const Placement& at, const Environment& env);

/// The host of rank 0 by Slurm's word, or nothing where that cannot be told (`-m arbitrary` may put it anywhere).
std::optional<std::string> main_host(const Placement& at, const Environment& env);

/// The address and port for this start, the same on each rank: MASTER_ADDR and MASTER_PORT where they are set; loopback
/// where all ranks are on one node; the number behind the name of rank 0's node; else what rank 0 publishes as a file
/// under `meeting_folder`, which all nodes must see. Rank 0 checks that the port is free.
///
/// Blocks:  where the address is published, until rank 0 has done so, for LOCKSTEP_MEET_TIMEOUT seconds (300).
/// Throws:  Error(kEnvironment) where the port is taken or no port or address can be found; Error(kPeer) where rank 0
///          does not publish in time; Error(kIo) where it cannot.
Rendezvous rendezvous_of(const Placement& at, const Environment& env, const TaskSettings& settings,
                         const std::filesystem::path& meeting_folder);

/// What rendezvous_of() would say, without waiting, publishing or checking: where the address will be published, that
/// is the name of rank 0's node.
///
/// Throws: Error(kEnvironment) as agreed_port() does.
Rendezvous expected_rendezvous(const Placement& at, const Environment& env, const TaskSettings& settings);

}  // namespace lockstep
