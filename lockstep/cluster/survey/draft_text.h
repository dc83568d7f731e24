// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/survey/draft.h"

namespace lockstep {

/// The draft as a profile's TOML: each value with its source as a comment, each gap as "# not known: KEY: HOW".
///
/// Throws: LOCKSTEP_ASSERT, if the profiles' own reader does not take it.
std::string to_toml(const ProfileDraft& draft, const std::string& name);

/// A few lines for a person: what was found, and what could not be known.
std::string summary(const ProfileDraft& draft);

}  // namespace lockstep
