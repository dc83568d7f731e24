// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>

namespace lockstep {

/// A frozen copy of the environment variables. Taken once, in main(), and handed down as a value.
class Environment {
 public:
  using Map = std::map<std::string, std::string>;

  Environment() = default;
  Environment(std::initializer_list<Map::value_type> values) : values_(values) {}
  explicit Environment(Map values) : values_(std::move(values)) {}

  /// The variables of this process now.
  static Environment of_process();

  /// The value of `name`, or nothing where it is unset or empty.
  std::optional<std::string> get(const std::string& name) const;

  /// The value of `name` as a whole number, or nothing where it is unset or empty.
  ///
  /// Throws: Error(kEnvironment) naming the variable and its value where it is not one.
  std::optional<int> get_int(const std::string& name) const;

  /// All variables, in the order of their names.
  const Map& all() const { return values_; }

 private:
  Map values_;
};

/// `text` with each `$NAME`, `${NAME}` and a leading `~` replaced from `env`.
///
/// Throws: Error(kRecipe) naming a variable that is not set.
std::string expanded(const std::string& text, const Environment& env);

}  // namespace lockstep
