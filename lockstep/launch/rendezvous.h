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

/// The address at which the ranks of a program meet, for MASTER_ADDR and MASTER_PORT.
struct Rendezvous {
  Endpoint master{};
  std::optional<RendezvousFile> published{};  ///< Rank 0's file with the address for the other nodes, to be removed at
                                              ///< the end.
};

/// Returns the port on which all ranks of a start agree without communication. It is MASTER_PORT, or else the last of
/// SLURM_STEP_RESV_PORTS, since Cray's PMI takes the first ones. Otherwise it is computed from the start's name. It is
/// then between 18432 and 30719, below the system's ephemeral ports. Returns nothing for a single rank without such a
/// name, which can take any free port.
///
/// Throws: Error(kEnvironment) if a variable does not hold a port, or if there are several ranks and neither a port nor
///         a name of the start.
std::optional<int> agreed_port(const Placement& at, const Environment& env);

/// Returns a port that nothing holds on this node now, between 18432 and 30719. The program binds the port seconds
/// later. By then an outgoing connection may have taken any ephemeral port, but none of this range. The port is drawn
/// at random, so that two starts are unlikely to get the same one.
///
/// Throws: Error(kEnvironment) if all these ports are taken.
int unclaimed_port();

/// Returns the host of rank 0 from Slurm's variables. Returns nothing if the host is unknown. With `-m arbitrary` rank
/// 0 may be on any node.
std::optional<std::string> main_host(const Placement& at, const Environment& env);

/// Returns the address and port for this start, the same on each rank. They are MASTER_ADDR and MASTER_PORT if these
/// are set, and loopback if all ranks are on one node. Otherwise it is the IP address of rank 0's node by its name. If
/// that does not resolve, it is the own_address() that rank 0 publishes as a file in `folder`, see rendezvous_folder().
/// Rank 0 checks that the port is free.
///
/// Blocks:  if the address is published, until rank 0 has done so, for LOCKSTEP_MEET_TIMEOUT seconds (300).
/// Throws:  Error(kEnvironment) if the port is taken, no port or address can be found, or a variable names an interface
///          that rank 0's node does not have; Error(kPeer) if rank 0 does not publish its address in time; Error(kIo)
///          if the file cannot be written.
Rendezvous rendezvous_of(const Placement& at, const Environment& env, const TaskSettings& settings,
                         const std::filesystem::path& folder);

/// Returns what rendezvous_of() would return, without waiting, publishing or checking. If rank 0 would publish its
/// address, the other ranks get the name of its node instead.
///
/// Throws: Error(kEnvironment) as agreed_port() and own_address() do.
Rendezvous expected_rendezvous(const Placement& at, const Environment& env, const TaskSettings& settings);

}  // namespace lockstep
