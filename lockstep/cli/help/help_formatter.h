// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::cli {

/// Lays out `--help` in columns that fit the terminal.
///
/// The first column is as wide as its widest cell, up to a limit. The explanation beside it is broken at spaces.
/// If a name is longer than the limit, its explanation begins on the next line.
///
/// Set it on the top command before sub-commands are added: they inherit it.
///
/// ```cpp
/// CLI::App app("…", "lockstep");
/// app.formatter(std::make_shared<HelpFormatter>(80, takes_program));
/// ```
class HelpFormatter : public CLI::Formatter {
 public:
  /// Returns true if a program and its arguments may follow the command's own words, after `--`.
  using TakesProgram = std::function<bool(const CLI::App& command)>;

  /// Units: `width` is in characters. If it is less than about 44, lines are longer than `width`.
  HelpFormatter(std::size_t width, TakesProgram takes_program)
      : width_(width), takes_program_(std::move(takes_program)) {}

  /// Writes the usage line. A command that takes a program has a usage line that ends in `-- CMD…`. If it can also be
  /// given arguments instead of a program, it has one usage line for each form.
  std::string make_usage(const CLI::App* app, std::string name) const override;

  std::string make_group(std::string group, bool is_positional, std::vector<const CLI::Option*> options) const override;
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;

 private:
  std::size_t width_;
  TakesProgram takes_program_;
};

/// One example for the end of a help text: a command line, and what it does.
using Example = std::pair<std::string_view, std::string_view>;

/// Returns a section "Examples:". Each command has a line of its own, so that it can be copied. What it does stands
/// below it, broken at spaces into lines of at most `width` characters.
std::string examples_section(const std::vector<Example>& examples, std::size_t width);

}  // namespace lockstep::cli
