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

/// Returns the table of variables that is part of this program, as TOML.
std::string_view builtin_variables();

/// Parses the table of harmful variables. Throws: Error(kRecipe) with file and line for an entry that the table must
/// not have.
std::vector<DangerousVariable> dangerous_variables(std::string_view toml = builtin_variables());

/// Checks variables that are known to slow runs down or to break them.
void check_variables(const DoctorContext& of, Findings& findings);

}  // namespace lockstep
