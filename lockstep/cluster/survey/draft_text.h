// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/cluster/survey/draft.h"

namespace lockstep {

/// Returns the draft as the TOML file of a cluster's profile. A comment gives the source of each value. Each key whose
/// value is unknown gets a line "# not known: KEY: HOW", where HOW says how to find the value.
///
/// Throws: LOCKSTEP_ASSERT, if ProfileLibrary cannot read this TOML back.
std::string to_toml(const ProfileDraft& draft, const std::string& name);

/// Returns a few lines for a person on the facts found and the unknown ones.
std::string summary(const ProfileDraft& draft);

}  // namespace lockstep
