// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cluster/doctor/doctor.h"

namespace lockstep {

/// A harmful variable, as profiles/doctor/variables.toml lists it.
struct DangerousVariable {
  std::string code{};
  std::string name{};
  std::vector<std::string> values{};  ///< Patterns. Empty for any value.
  std::vector<std::string> only{};    ///< The conditions under which it matters, all of them together.
  Severity severity = Severity::kNote;
  std::string reason{};
  std::string fix{};
};

/// The table that is part of this program.
std::string_view builtin_variables();

/// Throws: Error(kRecipe) with file and line for an entry that does not belong in the table.
std::vector<DangerousVariable> dangerous_variables(std::string_view toml = builtin_variables());

/// Checks variables that are known to slow runs down or to break them.
void check_variables(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
