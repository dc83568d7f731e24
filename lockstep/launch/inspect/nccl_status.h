// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/base/environment.h"

namespace lockstep {

/// Returns the address at which NCCL's RAS answers on this node. NCCL_RAS_ADDR in `env` changes it. Empty with
/// NCCL_RAS_ENABLE=0.
struct RasAddress {
  std::string host = "localhost";
  int port = 28028;
};
std::optional<RasAddress> ras_address(const Environment& env);

/// Asks NCCL's RAS for the status of all communicators of the job. NCCL has it from 2.24 on. Returns nothing if nobody
/// answers there, as with RCCL and Gloo, or if another program answers.
///
/// Blocks: for at most `patience`.
/// Source: NCCL's user guide, "RAS"; the source of its client ncclras, for the protocol.
std::optional<std::string> read_nccl_status(const RasAddress& address, std::chrono::milliseconds patience);

/// Returns the lines below "Errors" and "Warnings" in a status. Empty if NCCL finds no fault.
std::string nccl_complaints(const std::string& status);

}  // namespace lockstep
