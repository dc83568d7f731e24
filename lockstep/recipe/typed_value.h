// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/recipe/raw_setting.h"
#include "lockstep/recipe/recipe.h"
#include "lockstep/recipe/schema.h"

namespace lockstep {

/// Converts `raw` to the type of its row, and checks its range.
///
/// Throws: Error(kRecipe), or Error(kUsage) if it came from a flag, with its origin, the value found and the value
/// wanted.
SettingValue typed_value(const SettingRow& row, const RawSetting& raw);

/// Returns the default of `row`, which must have one.
SettingValue default_value(const SettingRow& row);

/// Returns `value` as TOML, as a recipe would hold it.
std::string toml_of(const SettingValue& value);

/// Formats the value of a row of type kAny, so that it reads back as the same type.
std::string toml_of_any(const SettingValue& value);

/// Returns the kind of error for a wrong value: kUsage if a flag gave it, and kRecipe otherwise.
ErrorKind error_kind(const Origin& origin);

}  // namespace lockstep
