// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/recipe/raw_setting.h"
#include "lockstep/recipe/recipe.h"
#include "lockstep/recipe/schema.h"

namespace lockstep {

/// The value of `raw` as its row wants it: of the row's type, and in its range.
///
/// Throws: Error(kRecipe), or Error(kUsage) where it came from a flag, naming where it stands, the value found and
/// wanted.
SettingValue typed_value(const SettingRow& row, const RawSetting& raw);

/// The default of `row`, which has one.
SettingValue default_value(const SettingRow& row);

/// `value` as TOML: what a recipe would hold.
std::string toml_of(const SettingValue& value);

/// The same for a row of type kAny, so that it reads back as the same type.
std::string toml_of_any(const SettingValue& value);

/// kUsage for a flag, kRecipe for all else: what the caller has to change.
ErrorKind error_kind(const Origin& origin);

}  // namespace lockstep
