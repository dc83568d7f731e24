// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep {

/// An account's limit and its use, in hours of the unit that its site bills.
struct AccountBudget {
  double granted = 0;
  double used = 0;

  double left() const { return granted - used; }
};

/// Asks Slurm's accounting. Returns nothing if there is no accounting, or if it sets no limit in this unit for the
/// account. Many sites keep their budgets elsewhere.
///
/// `unit` is "node-hours", "GPU-hours" or "core-hours", as in node_billing().
///
/// Blocks: until sshare has answered, for 10 seconds at most.
std::optional<AccountBudget> account_budget(const std::string& account, const std::string& unit,
                                            const Environment& env);

/// Returns the command whose output parsed_budget() reads. It ends after 10 seconds at most.
std::vector<std::string> budget_question(const std::string& account);

/// Parses the output of `sshare --noheader --parsable2 --format=Account,User,GrpTRESMins,GrpTRESRaw`. Both columns are
/// minutes of each kind of resource, such as "cpu=6000,node=600,gres/gpu=1200".
std::optional<AccountBudget> parsed_budget(std::string_view text, const std::string& account, const std::string& unit);

}  // namespace lockstep
