// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/cluster/profile/profile.h"

namespace lockstep {

/// Returns the keys that files have set, by table. Tables are in the schema's order, and keys in alphabetical order.
std::vector<std::string> given_keys(const Profile& profile);

/// Returns the value of one such key, as TOML.
std::string toml_value(const Profile& profile, const std::string& key);

/// Returns the profile as TOML that reads back as the same. If `with_origin`, a comment gives each key's origin and
/// marks unverified keys.
std::string to_toml(const Profile& profile, bool with_origin);

}  // namespace lockstep
