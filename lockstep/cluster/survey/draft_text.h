// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/survey/draft.h"

namespace lockstep {

/// Returns the draft as a profile's TOML. Each value has its source as a comment, and each gap is a line "# not known:
/// KEY: HOW".
///
/// Throws: LOCKSTEP_ASSERT, if the profiles' own reader does not take it.
std::string to_toml(const ProfileDraft& draft, const std::string& name);

/// Returns a few lines for a person on the facts found and the unknown ones.
std::string summary(const ProfileDraft& draft);

}  // namespace lockstep
