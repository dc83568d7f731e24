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

/// The field of a profile that a key means. Its alternative says which type the key has.
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

/// The row of a key and what its `*` stands for, or a null pointer if there is none.
struct ProfileMatch {
  const ProfileRow* row = nullptr;
  std::string name;
};
ProfileMatch profile_row_of(std::string_view key);

/// Puts a value from a file into `profile`, with its origin.
///
/// Throws: Error(kRecipe) with file and line for a key that is not known, naming the nearest, and for a value of
/// another type, with the one wanted.
void set_profile_key(Profile& profile, const RawSetting& raw);

/// The value as TOML would hold it.
std::string toml_of(const ProfileSlot& slot);

/// Describes the values of a slot, such as "a list of texts".
std::string wanted(const ProfileRow& row);

}  // namespace lockstep
