// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/budget.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "lockstep/base/text.h"
#include "lockstep/cluster/profile/account_budget.h"
#include "lockstep/observe/wall_clock.h"

namespace lockstep {
namespace {

/// Returns the hours until the job's end; nothing if nobody has said when that is.
std::optional<double> hours_left(const Environment& env) {
  for (const char* name : {"LOCKSTEP_JOB_END", "SLURM_JOB_END_TIME"}) {
    if (const auto end = parsed_double(env.get(name).value_or("")))
      return std::max(0.0, *end - unix_seconds(std::chrono::system_clock::now())) / 3600;
  }
  return std::nullopt;
}

NodeBilling billing(const DoctorContext& of) {
  const auto number = [&](const char* name) { return of.env.get_int(name).value_or(0); };
  const auto text = [&](const char* name) { return of.env.get(name).value_or(""); };
  const auto* queue = known_queue(of.profile, text("SLURM_JOB_QOS"), text("SLURM_JOB_PARTITION"));
  return node_billing(of.profile, number("SLURM_GPUS_ON_NODE"), number("SLURM_CPUS_ON_NODE"),
                      queue != nullptr && queue->whole_node);
}

}  // namespace

void check_budget(const DoctorContext& of, Findings& findings) {
  const auto account = of.env.get("SLURM_JOB_ACCOUNT").value_or("");
  const auto hours = hours_left(of.env);
  if (account.empty() || !hours || !of.system.run) return;
  const auto price = billing(of);
  const auto answer = of.system.run(budget_question(account));
  const auto budget = answer.exit_code == 0 ? parsed_budget(answer.output, account, price.unit) : std::nullopt;
  const double wanted = *hours * price.per_hour * of.env.get_int("SLURM_JOB_NUM_NODES").value_or(1);
  if (!budget || budget->left() >= wanted) return;
  findings.warning("budget-low",
                   "account " + account + " has " + fixed(std::max(0.0, budget->left()), 1) + " of its " +
                       fixed(budget->granted, 1) + " " + price.unit + " left, want " + fixed(wanted, 1) +
                       " for the rest of this job's time",
                   "ask for a shorter --time, or for more hours: Slurm may hold or end the account's jobs");
}

}  // namespace lockstep
