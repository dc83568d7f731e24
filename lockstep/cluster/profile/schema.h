// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/cluster/profile/profile.h"
#include "lockstep/recipe/raw_setting.h"

namespace lockstep {

/// The member of a profile in which a key's value is stored. The variant's alternative is the key's type.
using ProfileSlot = std::variant<std::string*, std::int64_t*, bool*, std::chrono::seconds*, std::vector<std::string>*,
                                 std::vector<std::int64_t>*, std::vector<NodeLimit>*>;

/// One row of the table of a profile's keys.
struct ProfileRow {
  std::string_view key;  ///< "node.cores". A `*` stands for a name, as in "partition.*.limits" and "env.*".
  ProfileSlot (*slot)(Profile& profile, const std::string& name) = nullptr;
  std::string_view help = {};
  std::string_view names = {};  ///< Text only. The allowed words, separated by spaces.
};

/// Every key that a profile may hold, in the order in which they are shown.
std::span<const ProfileRow> profile_schema();

/// The row of a key, and the text for which the key's `*` stands. The row is null if there is no such key.
struct ProfileMatch {
  const ProfileRow* row = nullptr;
  std::string name;
};
ProfileMatch profile_row_of(std::string_view key);

/// Stores a value from a file in `profile`, together with its origin.
///
/// Throws: Error(kRecipe) with file and line: for an unknown key, naming the nearest one, and for a value of a wrong
///         type, naming the type wanted.
void set_profile_key(Profile& profile, const RawSetting& raw);

/// Returns the value as TOML.
std::string toml_of(const ProfileSlot& slot);

/// Returns a description of a key's type, such as "a list of texts".
std::string wanted(const ProfileRow& row);

}  // namespace lockstep
