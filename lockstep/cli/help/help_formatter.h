// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
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
/// app.formatter(std::make_shared<HelpFormatter>(80));
/// ```
class HelpFormatter : public CLI::Formatter {
 public:
  /// Units: `width` is in characters. If it is less than about 44, lines are longer than `width`.
  explicit HelpFormatter(std::size_t width) : width_(width) {}

  std::string make_group(std::string group, bool is_positional, std::vector<const CLI::Option*> options) const override;
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;

 private:
  std::size_t width_;
};

}  // namespace lockstep::cli
