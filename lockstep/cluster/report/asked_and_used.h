// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/report/run_report.h"

namespace lockstep {

/// One resource: how much of it the job requested, and how much the run used.
struct AskedAndUsed {
  std::string what{};   ///< "time", "cores", "memory" or "devices".
  std::string asked{};  ///< "01:00:00", "8 a task", "96.0 GiB a node"
  std::string used{};   ///< "00:12:31 (21 %)"
  std::string next{};   ///< The option for the next time, such as "--time 00:20:00". Empty if the request fits.
};

/// Returns a line for each resource that the run's record and its nodes' agents report. Nothing without a job.
///
/// The suggested request is the amount used plus a quarter, since Slurm ends a job that exceeds its request. Cores and
/// memory of whole nodes are never lowered, since they are billed anyway. After a bad end, the resource that ran out is
/// raised, and nothing is lowered.
std::vector<AskedAndUsed> asked_and_used(const RunReport& report);

/// Returns the command for the next submission, if it differs from the last one. Example: "lockstep submit … --time
/// 00:20:00 -- python train.py".
std::string next_command(const RunReport& report, const std::vector<AskedAndUsed>& lines);

/// Returns the bytes that Slurm's --mem means by "96g", "500M" or "16000" (MiB). 0 for "0", which is all of a node's
/// memory, and for text that is not such a number.
double slurm_memory_bytes(const std::string& memory);

}  // namespace lockstep
