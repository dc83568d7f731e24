// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// A variable that is no good, as profiles/doctor/variables.toml has it.
struct DangerousVariable {
  std::string code{};
  std::string name{};
  std::vector<std::string> values{};  ///< Patterns; empty for any value.
  std::vector<std::string> only{};    ///< Where it matters: all of these.
  Severity severity = Severity::kNote;
  std::string reason{};
  std::string fix{};
};

/// The table that is part of this program.
std::string_view builtin_variables();

/// Throws: Error(kRecipe) with file and line for what the table should not hold.
std::vector<DangerousVariable> dangerous_variables(std::string_view toml = builtin_variables());

/// Checks variables that are known to slow runs down or to break them.
void check_variables(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
