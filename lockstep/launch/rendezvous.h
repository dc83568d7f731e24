// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"
#include "lockstep/launch/rendezvous_file.h"
#include "lockstep/launch/task_settings.h"

namespace lockstep {

/// Where a program's ranks meet: what MASTER_ADDR and MASTER_PORT are to say.
struct Rendezvous {
  Endpoint master{};
  std::optional<RendezvousFile> published{};  ///< Rank 0's file that tells the other nodes; to be removed at the end.
};

/// The port that all ranks of a start agree on without talking: MASTER_PORT; else the last of SLURM_STEP_RESV_PORTS,
/// since Cray's PMI takes the first ones; else one between 18432 and 30719, below those that the system gives away,
/// from the start's name. Nothing where a single rank has no such name: any free one will do.
///
/// Throws: Error(kEnvironment) where a variable holds no port, or where several ranks have nothing to agree by.
std::optional<int> agreed_port(const Placement& at, const Environment& env);

/// The host of rank 0 by Slurm's word, or nothing where that cannot be told (`-m arbitrary` may put it anywhere).
std::optional<std::string> main_host(const Placement& at, const Environment& env);

/// The address and port for this start, the same on each rank: MASTER_ADDR and MASTER_PORT if they are set; loopback if
/// all ranks are on one node; the IP address of rank 0's node, by its name; else the own_address() that rank 0
/// publishes as a file in `folder`, see rendezvous_folder(). Rank 0 checks that the port is free.
///
/// Blocks:  if the address is published, until rank 0 has done so, for LOCKSTEP_MEET_TIMEOUT seconds (300).
/// Throws:  Error(kEnvironment) if the port is taken, no port or address can be found, or a variable names an interface
///          that rank 0's node does not have; Error(kPeer) if rank 0 does not publish in time; Error(kIo) if it cannot.
Rendezvous rendezvous_of(const Placement& at, const Environment& env, const TaskSettings& settings,
                         const std::filesystem::path& folder);

/// Foresees rendezvous_of() without waiting, publishing or checking. If the address will be published, the other ranks
/// get the name of rank 0's node.
///
/// Throws: Error(kEnvironment) as agreed_port() and own_address() do.
Rendezvous expected_rendezvous(const Placement& at, const Environment& env, const TaskSettings& settings);

}  // namespace lockstep
