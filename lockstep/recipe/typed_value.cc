// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/typed_value.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse(const SettingRow& row, const RawSetting& raw,
                         const std::string& hint = "`lockstep recipe ls` explains each key") {
  throw Error(error_kind(raw.origin),
              raw.origin.where + ": " + raw.key + " = " + raw.value.shown + ", want " + wanted(row), hint);
}

std::optional<double> number(const RawScalar& scalar) {
  if (const auto* whole = std::get_if<std::int64_t>(&scalar)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&scalar); real != nullptr && std::isfinite(*real)) return *real;
  return std::nullopt;
}

bool keeps(const SettingRule& rule, double value) { return rule.holds == nullptr || rule.holds(value); }

std::optional<std::string> text_of(const RawSetting& raw) {
  // In `--set model.name=1` the value is text, although TOML would read it as a number.
  const auto* scalar = std::get_if<RawScalar>(&raw.value.data);
  const auto* text = scalar != nullptr ? std::get_if<std::string>(scalar) : nullptr;
  return text != nullptr ? std::optional(*text) : raw.value.typed;
}

SettingValue text_value(const SettingRow& row, const RawSetting& raw) {
  const auto text = text_of(raw);
  if (!text || text->empty() || text->find('\0') != std::string::npos) refuse(row, raw);
  if (row.rule.names.empty()) return *text;
  const auto names = words(row.rule.names);
  if (std::none_of(names.begin(), names.end(),
                   [&](const auto& name) { return *text == name || names_file(name, *text); })) {
    const auto near = nearest_name(*text, names);
    refuse(row, raw, near ? "did you mean '" + *near + "'?" : "");
  }
  return *text;
}

SettingValue duration_value(const SettingRow& row, const RawSetting& raw) {
  const auto* scalar = std::get_if<RawScalar>(&raw.value.data);
  auto seconds = scalar != nullptr ? number(*scalar) : std::nullopt;
  if (const auto text = text_of(raw); !seconds && text) seconds = parsed_duration(*text);
  if (!seconds || !keeps(row.rule, *seconds)) refuse(row, raw, "for example \"01:30:00\" or 5400");
  return *seconds;
}

template <typename Number>
SettingValue list_value(const SettingRow& row, const RawSetting& raw) {
  const auto* list = std::get_if<std::vector<RawScalar>>(&raw.value.data);
  if (list == nullptr || list->size() < row.rule.min_length || list->size() > row.rule.max_length) refuse(row, raw);
  std::vector<Number> numbers;
  for (const auto& item : *list) {
    const auto value = number(item);
    const bool is_typed = std::is_same_v<Number, double> || std::holds_alternative<std::int64_t>(item);
    if (!value || !is_typed || !keeps(row.rule, *value)) refuse(row, raw);
    numbers.push_back(static_cast<Number>(*value));
  }
  return numbers;
}

SettingValue texts_value(const SettingRow& row, const RawSetting& raw) {
  const auto* list = std::get_if<std::vector<RawScalar>>(&raw.value.data);
  if (list == nullptr) return std::vector<std::string>{std::get<std::string>(text_value(row, raw))};
  std::vector<std::string> texts;
  for (const auto& item : *list) {
    const auto* text = std::get_if<std::string>(&item);
    if (text == nullptr || text->empty() || text->find('\0') != std::string::npos) refuse(row, raw);
    texts.push_back(*text);
  }
  return texts;
}

SettingValue scalar_value(const SettingRow& row, const RawSetting& raw) {
  const auto* scalar = std::get_if<RawScalar>(&raw.value.data);
  if (scalar == nullptr) refuse(row, raw);
  if (row.type == SettingType::kFlag) {
    if (const auto* flag = std::get_if<bool>(scalar)) return *flag;
    refuse(row, raw);
  }
  const auto value = number(*scalar);
  if (!value || !keeps(row.rule, *value)) refuse(row, raw);
  if (row.type == SettingType::kReal) return *value;
  const auto* whole = std::get_if<std::int64_t>(scalar);
  if (whole == nullptr) refuse(row, raw);
  return *whole;
}

SettingValue any_value(const SettingRow& row, const RawSetting& raw) {
  const auto is_all = [](const std::vector<RawScalar>& items, auto holds) { return std::ranges::all_of(items, holds); };
  if (const auto* list = std::get_if<std::vector<RawScalar>>(&raw.value.data)) {
    if (is_all(*list, [](const auto& item) { return std::holds_alternative<std::string>(item); })) {
      return map_each(*list, [](const auto& item) { return std::get<std::string>(item); });
    }
    if (is_all(*list, [](const auto& item) { return std::holds_alternative<std::int64_t>(item); })) {
      return list_value<std::int64_t>(row, raw);
    }
    return list_value<double>(row, raw);
  }
  const auto& scalar = std::get<RawScalar>(raw.value.data);
  if (const auto* flag = std::get_if<bool>(&scalar)) return *flag;
  if (const auto* whole = std::get_if<std::int64_t>(&scalar)) return *whole;
  if (const auto* text = std::get_if<std::string>(&scalar)) return *text;
  if (const auto value = number(scalar)) return *value;
  refuse(row, raw);
}

std::string toml_number(double value) {
  std::string text = shortest(value);
  // A number without a point is a whole number in TOML. A setting for real numbers accepts it too, if it fits into 64
  // bits.
  if (std::abs(value) >= 1e15 && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

template <typename T>
std::string toml_item(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return std::to_string(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return toml_number(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return toml_quoted(value);
  } else {
    std::vector<std::string> items;
    items.reserve(value.size());
    for (const auto& item : value) items.push_back(toml_item(item));
    return std::string("[").append(joined(items, ", ")).append("]");
  }
}

}  // namespace

SettingValue typed_value(const SettingRow& row, const RawSetting& raw) {
  switch (row.type) {
    case SettingType::kFlag:
    case SettingType::kInteger:
    case SettingType::kReal:
      return scalar_value(row, raw);
    case SettingType::kText:
    case SettingType::kPath:
      return text_value(row, raw);
    case SettingType::kDuration:
      return duration_value(row, raw);
    case SettingType::kIntegers:
      return list_value<std::int64_t>(row, raw);
    case SettingType::kReals:
      return list_value<double>(row, raw);
    case SettingType::kTexts:
      return texts_value(row, raw);
    case SettingType::kAny:
      return any_value(row, raw);
  }
  LOCKSTEP_ASSERT(false);
}

SettingValue default_value(const SettingRow& row) {
  LOCKSTEP_ASSERT(!row.fallback.empty() && row.fallback != kMustBeSet);
  return typed_value(row, {.key = std::string(row.key),
                           .value = raw_value(row.fallback),
                           .origin = {.source = SettingSource::kDefault, .where = "default"},
                           .base = {}});
}

// A setting of type kAny must have the same type when it is read back. So 1.0 must not be written as 1.
std::string toml_of_any(const SettingValue& value) {
  const auto with_point = [](double number) {
    auto text = toml_number(number);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  };
  if (const auto* number = std::get_if<double>(&value)) return with_point(*number);
  if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
    return "[" + joined(map_each(*numbers, with_point), ", ") + "]";
  }
  return toml_of(value);
}

std::string toml_of(const SettingValue& value) {
  return std::visit([](const auto& held) { return toml_item(held); }, value);
}

ErrorKind error_kind(const Origin& origin) {
  return origin.source == SettingSource::kFlag ? ErrorKind::kUsage : ErrorKind::kRecipe;
}

}  // namespace lockstep
