// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// What an account may use and has used, in hours of the unit that its site bills.
struct AccountBudget {
  double granted = 0;
  double used = 0;

  double left() const { return granted - used; }
};

/// Asks Slurm's accounting. Returns nothing if there is none, or if it sets the account no limit of that unit: many
/// sites keep their budgets elsewhere.
///
/// `unit` is "node-hours", "GPU-hours" or "core-hours", as node_billing() has it.
///
/// Blocks: until sshare has answered, for 10 seconds at most.
std::optional<AccountBudget> account_budget(const std::string& account, const std::string& unit,
                                            const Environment& env);

/// Returns the command whose output parsed_budget() reads. It ends after 10 seconds at most.
std::vector<std::string> budget_question(const std::string& account);

/// Returns the budget in what `sshare --noheader --parsable2 --format=Account,User,GrpTRESMins,GrpTRESRaw` prints.
/// Both columns are minutes of each kind of resource: "cpu=6000,node=600,gres/gpu=1200".
std::optional<AccountBudget> parsed_budget(std::string_view text, const std::string& account, const std::string& unit);

}  // namespace lockstep
