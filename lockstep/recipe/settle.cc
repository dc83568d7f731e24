// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipe/settle.h"

#include <algorithm>
#include <optional>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/recipe/schema.h"
#include "lockstep/recipe/typed_value.h"

namespace lockstep {
namespace {

using Settings = std::map<std::string, Setting, std::less<>>;

/// "optimizer.momentum = 0.9 (digits.toml:12)"
std::string spelt(const std::string& key, const Setting& setting) {
  return key + " = " + toml_of(setting.value) + " (" + setting.origin.where + ")";
}

[[noreturn]] void refuse_unknown(const RawSetting& raw) {
  const auto near = nearest_setting(raw.key);
  throw Error(error_kind(raw.origin), raw.origin.where + ": unknown setting '" + raw.key + "'",
              (near ? "did you mean " + *near + "? " : "") + "`lockstep recipe ls` lists every setting");
}

/// The settings from all sources by key. If several sources set a key, the value of the highest source is kept.
class Laid {
 public:
  void add(const RawSetting& raw) {
    const auto rows = rows_of(raw.key);
    if (rows.empty()) refuse_unknown(raw);
    const auto& row = *rows.front();
    const std::string key(row.ties.same_as.empty() ? std::string_view(raw.key) : row.ties.same_as);
    Setting setting{.value = typed_value(row, raw), .origin = raw.origin, .base = raw.base};
    const auto before = settings_.find(key);
    if (before != settings_.end() && before->second.origin.source == raw.origin.source && spelling_[key] != raw.key &&
        before->second.value != setting.value) {
      throw Error(error_kind(raw.origin),
                  spelt(spelling_[key], before->second) + " and " + spelt(raw.key, setting) +
                      " are one setting with two values, want one",
                  "keep one of the two lines");
    }
    spelling_[key] = raw.key;
    settings_.insert_or_assign(key, std::move(setting));
  }

  Settings settings() && { return std::move(settings_); }

 private:
  Settings settings_;
  std::map<std::string, std::string> spelling_;
};

struct Selected {
  std::string key;    ///< "optimizer.name"
  std::string value;  ///< "adam". Empty if nothing was chosen.
  Origin origin;
};

std::optional<Selected> selected(const Settings& settings, std::string_view table) {
  const auto key = selector_of(table);
  if (!key) return std::nullopt;
  if (const auto found = settings.find(*key); found != settings.end()) {
    return Selected{*key, std::get<std::string>(found->second.value), found->second.origin};
  }
  const auto& row = *rows_of(*key).front();
  return Selected{
      *key, row.fallback == kMustBeSet ? "" : std::string(row.fallback), {SettingSource::kDefault, "default"}};
}

/// Returns a text such as "sgd takes lr, momentum, …".
std::string what_is_taken(const Selected& choice) {
  std::vector<std::string> keys;
  for (const auto& row : schema()) {
    if (table_of(row.key) == table_of(choice.key) && row.key != choice.key && row.ties.same_as.empty() &&
        is_taken_by(row, choice.value)) {
      keys.emplace_back(row.key.substr(row.key.find('.') + 1));
    }
  }
  return choice.value + " takes " + joined(keys, ", ");
}

/// Drops settings that the chosen `kind` or `name` does not take if a lower source set them, and refuses them
/// otherwise.
void keep_to_selection(Settings& settings, std::vector<std::string>& notes) {
  for (auto it = settings.begin(); it != settings.end();) {
    const auto& [key, setting] = *it;
    const auto rows = rows_of(key);
    const auto choice = selected(settings, table_of(key));
    const bool is_moot =
        choice && !choice->value.empty() &&
        std::none_of(rows.begin(), rows.end(), [&](const auto* row) { return is_taken_by(*row, choice->value); });
    if (!is_moot) {
      ++it;
      continue;
    }
    const std::string chosen = choice->key + " = " + toml_quoted(choice->value) + " (" + choice->origin.where + ")";
    if (setting.origin.source >= choice->origin.source) {
      throw Error(error_kind(setting.origin),
                  setting.origin.where + ": " + key + " = " + toml_of(setting.value) + ", but " + chosen +
                      " takes no such setting",
                  what_is_taken(*choice));
    }
    notes.push_back(spelt(key, setting) + " is left out: " + chosen + " takes no such setting");
    it = settings.erase(it);
  }
}

/// If two keys exclude each other, the one from the higher source stays.
void keep_one_of_each_pair(Settings& settings, std::vector<std::string>& notes) {
  for (const auto& row : schema()) {
    for (const auto& other_key : words(row.ties.excludes)) {
      const auto mine = settings.find(row.key);
      const auto other = settings.find(other_key);
      if (mine == settings.end() || other == settings.end()) continue;
      if (mine->second.origin.source == other->second.origin.source) {
        throw Error(error_kind(mine->second.origin),
                    spelt(mine->first, mine->second) + " and " + spelt(other_key, other->second) +
                        " exclude each other, want one",
                    "keep one of the two");
      }
      const auto lower = mine->second.origin.source < other->second.origin.source ? mine : other;
      const auto higher = lower == mine ? other : mine;
      notes.push_back(spelt(lower->first, lower->second) + " is left out: " + spelt(higher->first, higher->second) +
                      " replaces it");
      settings.erase(lower);
    }
  }
}

void add_defaults(Settled& result) {
  std::set<std::string, std::less<>> given;
  for (const auto& [key, setting] : result.settings) given.insert(key);
  const auto is_any_given = [&](std::string_view keys) {
    const auto list = words(keys);
    return std::any_of(list.begin(), list.end(), [&](const auto& key) { return given.contains(key); });
  };
  for (const auto& row : schema()) {
    const auto choice = selected(result.settings, table_of(row.key));
    if (row.fallback.empty() || given.contains(row.key) || (choice && !is_taken_by(row, choice->value)) ||
        is_any_given(row.ties.excludes) || is_any_given(row.ties.yields_to)) {
      continue;
    }
    if (row.fallback == kMustBeSet) {
      result.gaps.emplace_back(row.key);
    } else {
      result.settings.emplace(row.key, Setting{default_value(row), {SettingSource::kDefault, "default"}, {}});
    }
  }
}

/// PyTorch's SGD refuses this combination too. Here the error can name the line of the recipe.
void check_nesterov(const Settings& settings) {
  const auto found = settings.find("optimizer.nesterov");
  if (found == settings.end() || !std::get<bool>(found->second.value)) return;
  for (const auto& [key, wants_zero] :
       {std::pair{"optimizer.momentum", false}, std::pair{"optimizer.dampening", true}}) {
    const auto& other = settings.at(key);
    if ((std::get<double>(other.value) == 0) != wants_zero) {
      throw Error(error_kind(found->second.origin),
                  spelt("optimizer.nesterov", found->second) + " beside " + spelt(key, other) +
                      ", want momentum above 0 and dampening 0",
                  "set optimizer.momentum=0.9, or leave nesterov out");
    }
  }
}

}  // namespace

Settled settled(const std::vector<RawSetting>& raw) {
  Laid laid;
  for (const auto& setting : raw) laid.add(setting);
  Settled result{.settings = std::move(laid).settings(), .notes = {}, .gaps = {}};
  keep_to_selection(result.settings, result.notes);
  keep_one_of_each_pair(result.settings, result.notes);
  add_defaults(result);
  check_nesterov(result.settings);
  return result;
}

}  // namespace lockstep
