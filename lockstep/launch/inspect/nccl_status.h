// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/base/environment.h"

namespace lockstep {

/// The address at which a job's NCCL answers on this node. NCCL_RAS_ADDR of `env` changes it, and NCCL_RAS_ENABLE=0
/// takes it away.
struct RasAddress {
  std::string host = "localhost";
  int port = 28028;
};
std::optional<RasAddress> ras_address(const Environment& env);

/// Asks NCCL's RAS for the status of all communicators of the job. NCCL has it from 2.24 on. Returns nothing if nobody
/// answers there, as with RCCL and Gloo, or if something else does.
///
/// Blocks: for at most `patience`.
/// Source: NCCL's user guide, "RAS"; its client ncclras, for the words of the protocol.
std::optional<std::string> read_nccl_status(const RasAddress& address, std::chrono::milliseconds patience);

/// Returns the lines of a status that say what is wrong, from "Errors" and "Warnings" on. Empty if NCCL finds nothing.
std::string nccl_complaints(const std::string& status);

}  // namespace lockstep
