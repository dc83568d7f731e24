// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The environment variables as a value. Code that takes an Environment as an argument can be tested with literals.
///
///     const auto env = lockstep::Environment::of_process();
///     const std::string scratch = env.get("SCRATCH").value_or("/tmp");
///     const int tasks = env.get_int("SLURM_NTASKS").value_or(1);

#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>

namespace lockstep {

/// A copy of the environment variables that never changes. main() makes it once and passes it on.
class Environment {
 public:
  using Map = std::map<std::string, std::string>;

  Environment() = default;
  Environment(std::initializer_list<Map::value_type> values) : values_(values) {}
  explicit Environment(Map values) : values_(std::move(values)) {}

  /// Returns a copy of this process's variables as they are now.
  static Environment of_process();

  /// Returns the value of `name`, or nothing if it is unset or empty.
  std::optional<std::string> get(const std::string& name) const;

  /// Returns the value of `name` as a whole number, or nothing if it is unset or empty.
  ///
  /// Throws: Error(kEnvironment) naming the variable and the value, if the value is not a whole number.
  std::optional<int> get_int(const std::string& name) const;

  /// Returns all variables, sorted by name.
  const Map& all() const { return values_; }

 private:
  Map values_;
};

/// Returns `text` with each `$NAME`, each `${NAME}` and a leading `~` replaced by its value in `env`.
///
/// Throws: Error(kRecipe) naming a variable that is not set.
std::string expanded(const std::string& text, const Environment& env);

}  // namespace lockstep
