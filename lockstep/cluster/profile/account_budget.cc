// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/profile/account_budget.h"

#include "lockstep/base/text.h"
#include "lockstep/launch/process.h"

namespace lockstep {
namespace {

constexpr double kMinutes = 60;

/// Returns Slurm's name of the resource that a site bills by the hour. Empty for another unit.
std::string resource_of(const std::string& unit) {
  if (unit == "node-hours") return "node";
  if (unit == "GPU-hours") return "gres/gpu";
  return unit == "core-hours" ? "cpu" : "";
}

/// Returns the number of `name` in a text such as "cpu=6000,node=600".
std::optional<double> resource_in(std::string_view list, const std::string& name) {
  for (const auto& each : split(list, ',')) {
    if (each.starts_with(name + "=")) return parsed_double(each.substr(name.size() + 1));
  }
  return std::nullopt;
}

}  // namespace

std::optional<AccountBudget> account_budget(const std::string& account, const std::string& unit,
                                            const Environment& env) {
  if (account.empty() || resource_of(unit).empty()) return std::nullopt;
  const auto asked = run_process(budget_question(account), env);
  return asked.exit_code == 0 ? parsed_budget(asked.output, account, unit) : std::nullopt;
}

std::vector<std::string> budget_question(const std::string& account) {
  return {"timeout",
          "10",
          "sshare",
          "--noheader",
          "--parsable2",
          "--accounts=" + account,
          "--format=Account,User,GrpTRESMins,GrpTRESRaw"};
}

std::optional<AccountBudget> parsed_budget(std::string_view text, const std::string& account, const std::string& unit) {
  const auto resource = resource_of(unit);
  for (const auto& line : split(text, '\n')) {
    const auto fields = split(line, '|');
    // The output has the account's own line first, and then lines of its users, which are not used.
    if (fields.size() != 4 || trimmed(fields[0]) != account || !trimmed(fields[1]).empty()) continue;
    const auto granted = resource_in(fields[2], resource);
    if (!granted) return std::nullopt;
    return AccountBudget{.granted = *granted / kMinutes,
                         .used = resource_in(fields[3], resource).value_or(0) / kMinutes};
  }
  return std::nullopt;
}

}  // namespace lockstep
