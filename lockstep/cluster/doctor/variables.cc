// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/variables.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/pattern.h"
#include "lockstep/cluster/doctor/devices.h"
#include "lockstep/recipe/raw_setting.h"
#include "lockstep/telemetry/network_watch.h"

namespace lockstep {
namespace {

std::string text_of(const RawScalar& scalar) {
  const auto* text = std::get_if<std::string>(&scalar);
  return text == nullptr ? std::string() : *text;
}

std::vector<std::string> texts_of(const RawValue& value) {
  std::vector<std::string> texts;
  if (const auto* list = std::get_if<std::vector<RawScalar>>(&value.data)) {
    for (const auto& entry : *list) texts.push_back(text_of(entry));
  }
  return texts;
}

std::string text_of(const RawValue& value) {
  const auto* scalar = std::get_if<RawScalar>(&value.data);
  return scalar == nullptr ? std::string() : text_of(*scalar);
}

Severity severity_of(const RawSetting& raw) {
  const auto word = text_of(raw.value);
  for (const auto severity : {Severity::kNote, Severity::kWarning, Severity::kError}) {
    if (word == name_of(severity)) return severity;
  }
  throw Error(ErrorKind::kRecipe,
              raw.origin.where + ": severity is " + raw.value.shown + ", want note, warning or error",
              "write one of these");
}

void set_key(DangerousVariable& variable, const std::string& key, const RawSetting& raw) {
  if (key == "name") {
    variable.name = text_of(raw.value);
  } else if (key == "values") {
    variable.values = texts_of(raw.value);
  } else if (key == "only") {
    variable.only = texts_of(raw.value);
  } else if (key == "severity") {
    variable.severity = severity_of(raw);
  } else if (key == "reason") {
    variable.reason = text_of(raw.value);
  } else if (key == "fix") {
    variable.fix = text_of(raw.value);
  } else {
    throw Error(ErrorKind::kRecipe, raw.origin.where + ": unknown key '" + key + "'",
                "a variable has name, values, only, severity, reason and fix");
  }
}

/// Returns the conditions that are true here, by the names that `only` uses in the table.
std::vector<std::string> conditions(const DoctorContext& of) {
  std::vector<std::string> true_here;
  // A variable that turns a network off must not make this look as if the node had no such network. So the network is
  // looked up with an empty environment.
  const auto fast = fast_network(Environment{}, of.root);
  if (of.in_job()) true_here.emplace_back("job");
  if (of.spans_nodes()) true_here.emplace_back("several-nodes");
  // Inside a step the variable has already had its effect: a task without the script's variables has no PATH either.
  if (!of.env.get("SLURM_STEP_ID") || !of.env.get("PATH")) true_here.emplace_back("without-path");
  if (fast) true_here.emplace_back("fast-network");
  if (fast && fast->starts_with("Slingshot")) true_here.emplace_back("slingshot");
  const auto gpus = usable_gpus(of);
  if (!gpus.empty()) {
    true_here.emplace_back("devices");
    true_here.emplace_back(gpus.front().maker == GpuMaker::kAmd ? "amd" : "nvidia");
  }
  return true_here;
}

}  // namespace

std::vector<DangerousVariable> dangerous_variables(std::string_view toml) {
  std::vector<DangerousVariable> variables;
  const SettingsText text{.toml = toml, .name = "variables.toml", .folder = {}};
  for (const auto& raw : flat_settings(text)) {
    const auto dot = raw.key.find('.');
    if (dot == std::string::npos) {
      throw Error(ErrorKind::kRecipe, raw.origin.where + ": '" + raw.key + "' stands in no table",
                  "a table's name is the finding's code: [variable-memhooks]");
    }
    const auto code = raw.key.substr(0, dot);
    auto found = std::ranges::find(variables, code, &DangerousVariable::code);
    if (found == variables.end()) found = variables.insert(found, {.code = code});
    set_key(*found, raw.key.substr(dot + 1), raw);
  }
  return variables;
}

void check_variables(const DoctorContext& of, Findings& findings) {
  const auto here = conditions(of);
  const auto is_here = [&](const std::string& word) { return std::ranges::find(here, word) != here.end(); };
  for (const auto& variable : dangerous_variables()) {
    const auto value = of.env.get(variable.name);
    if (!value || !std::ranges::all_of(variable.only, is_here)) continue;
    const auto fits = [&](const std::string& pattern) { return fits_pattern(*value, pattern); };
    if (!variable.values.empty() && std::ranges::none_of(variable.values, fits)) continue;
    findings.add(variable.severity, variable.code, variable.name + "='" + *value + "': " + variable.reason,
                 variable.fix);
  }
}

}  // namespace lockstep
