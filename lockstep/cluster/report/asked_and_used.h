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
  std::string next{};   ///< The option to ask with next time, "--time 00:20:00"; empty if what was asked for fits.
};

/// Returns a line for each of these that the run's record and its nodes' agents tell of; nothing without a job.
///
/// What is asked for next time is what was used and a quarter more: Slurm lets no job pass what it asked for. Cores and
/// memory of nodes that the job has whole are not asked for less: they are billed anyway. A run that did not end well
/// is told to ask for more of what it ran out of, and of nothing less.
std::vector<AskedAndUsed> asked_and_used(const RunReport& report);

/// Returns the command to submit with next time, if it differs: "lockstep submit … --time 00:20:00 -- python train.py".
std::string next_command(const RunReport& report, const std::vector<AskedAndUsed>& lines);

/// Returns the bytes that Slurm's --mem means: "96g", "500M", "16000" (MiB); 0 for "0", which is all of a node's, and
/// for words that are no such number.
double slurm_memory_bytes(const std::string& memory);

}  // namespace lockstep
