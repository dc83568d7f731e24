// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/report/run_report.h"

namespace lockstep {

/// One thing that a job asked for, against what its run used of it.
struct AskedAndUsed {
  std::string what{};   ///< "time", "cores", "memory" or "devices".
  std::string asked{};  ///< "01:00:00", "8 a task", "96.0 GiB a node"
  std::string used{};   ///< "00:12:31 (21 %)"
  std::string next{};   ///< The option for the next time, such as "--time 00:20:00". Empty if the request fits.
};

/// Returns a line for each resource that the run's record and its nodes' agents report. Nothing without a job.
///
/// The request for the next time is the use and a quarter more, since Slurm ends a job that exceeds its request. It
/// never lowers cores and memory of nodes that the job has whole, since they are billed anyway. After a bad end it
/// raises the resource that ran out, and lowers nothing.
std::vector<AskedAndUsed> asked_and_used(const RunReport& report);

/// Returns the command to submit with next time if it differs, such as "lockstep submit … --time 00:20:00 -- python
/// train.py".
std::string next_command(const RunReport& report, const std::vector<AskedAndUsed>& lines);

/// Returns the bytes that Slurm's --mem means by "96g", "500M" or "16000" (MiB). 0 for "0", which is all of a node's
/// memory, and for text that is not such a number.
double slurm_memory_bytes(const std::string& memory);

}  // namespace lockstep
