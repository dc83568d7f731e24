// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/help/help_formatter.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "lockstep/base/map_each.h"
#include "lockstep/base/text_format.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kGap = 2;
constexpr std::size_t kWidestName = 26;

/// A name, and its explanation.
using Entry = std::pair<std::string, std::string>;

std::string to_upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// Returns the name of an option with its value, such as "RUN", "--nodes N,N…" or "--to FILE (required)". For
/// positionals the usage line shows which are required. If a value has no name of its own, it is shown as in "--batch
/// BATCH".
std::string cell(const CLI::Option& option, bool is_positional) {
  if (is_positional) return option.get_name(true, false);
  std::string text = option.get_name(false, true);
  // The parser adds a flag's value in braces: "--no-wait{false}".
  if (const auto brace = text.find('{'); brace != std::string::npos) text.erase(brace);
  if (option.get_type_size() != 0) {
    // The parser appends what a value is checked for: "SECONDS:FLOAT in [1 - 1e+06]".
    const std::string named = option.get_type_name();
    const std::string type = named.substr(0, std::min(named.find(":FLOAT in ["), named.find(":INT in [")));
    const bool is_default = type == "TEXT" || type == "INT" || type == "FLOAT";
    text += " " + (is_default ? to_upper(option.get_single_name()) : type);
  }
  return option.get_required() ? text + " (required)" : text;
}

std::string table(const std::string& title, const std::vector<Entry>& entries, std::size_t width) {
  std::size_t widest = 0;
  for (const auto& entry : entries) {
    const auto name = width_of(entry.first);
    if (name <= kWidestName) widest = std::max(widest, name);
  }
  std::string text = "\n" + title + ":\n";
  for (const auto& [name, help] : entries) {
    text += list_row(std::string(kIndent, ' ') + name, kIndent + widest + kGap, help, width);
  }
  return text;
}

}  // namespace

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  const std::string own = CLI::Formatter::make_usage(app, name);
  if (!takes_program_(*app)) return own;
  const bool has_arguments = !app->get_options([](const auto* each) { return each->get_positional(); }).empty();
  const std::string title = get_label("Usage") + ": ";
  const std::string with_program = name + " [" + get_label("OPTIONS") + "] -- CMD…\n";
  return has_arguments ? own + std::string(title.size(), ' ') + with_program : title + with_program;
}

std::string HelpFormatter::make_group(std::string group, bool is_positional,
                                      std::vector<const CLI::Option*> options) const {
  const auto entries = map_each(
      options, [&](const auto* option) { return Entry(cell(*option, is_positional), option->get_description()); });
  return table(group, entries, width_);
}

std::string HelpFormatter::make_subcommands(const CLI::App* app, CLI::AppFormatMode /*mode*/) const {
  const auto commands = app->get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); });
  if (commands.empty()) return {};
  const auto entries =
      map_each(commands, [](const auto* command) { return Entry(command->get_name(), command->get_description()); });
  return table("Subcommands", entries, width_);
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrapped(app->get_description(), width_, "");
}

std::string HelpFormatter::make_footer(const CLI::App* app) const { return app->get_footer(); }

std::string examples_section(const std::vector<Example>& examples, std::size_t width) {
  std::string text = "Examples:\n";
  for (const auto& [command, what] : examples) {
    text +=
        std::string(kIndent, ' ') + std::string(command) + "\n" + wrapped(what, width, std::string(3 * kIndent, ' '));
  }
  return text;
}

}  // namespace lockstep::cli
