// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/help/help_formatter.h"
#include "lockstep/launch/early_signal.h"

namespace {

using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::cli::Context;

bool takes_program(const CLI::App& command, const Context& context) {
  const auto& takers = context.program_takers;
  return std::find(takers.begin(), takers.end(), &command) != takers.end();
}

/// The innermost command on the command line, such as `recipe ls`.
struct Chosen {
  const CLI::App* app = nullptr;
  std::string name;  ///< With its parents, such as "recipe ls ". Empty if no command was given.
};

Chosen chosen_command(const CLI::App& app) {
  Chosen chosen{.app = &app, .name = {}};
  while (!chosen.app->get_subcommands().empty()) {
    chosen.app = chosen.app->get_subcommands().front();
    chosen.name += chosen.app->get_name() + " ";
  }
  return chosen;
}

/// Returns "`lockstep recipe show NAME` shows it. " if a NAME was given to a command that only lists. Empty otherwise.
std::string show_instead(const CLI::App& at, const std::string& name) {
  const auto* parent = at.get_parent();
  if (at.get_name() != "ls" || parent == nullptr || parent->get_parent() == nullptr) return {};
  const auto shows = parent->get_subcommands([](const CLI::App* each) { return each->get_name() == "show"; });
  if (shows.empty()) return {};
  return "`lockstep " + parent->get_name() + " show " + name + "` shows it. ";
}

/// Converts an error of the parser to an Error with a fact and a hint. For a misspelt name, the hint has the nearest
/// name.
Error usage_error(const CLI::App& app, const CLI::ParseError& complaint, const Context& context) {
  const auto [chosen, path] = chosen_command(app);
  const CLI::App& at = *chosen;
  const std::string help = "`lockstep " + path + "--help` shows what there is";
  const auto extras = at.remaining();
  if (extras.empty()) return Error(ErrorKind::kUsage, complaint.what(), help);

  const bool is_option = extras.front().starts_with('-');
  std::vector<std::string> names;
  if (is_option) {
    for (const auto* option : at.get_options()) names.push_back("--" + option->get_single_name());
  } else {
    for (const auto* command : at.get_subcommands({})) names.push_back(command->get_name());
  }
  const auto near = lockstep::nearest_name(extras.front(), names);
  if (!is_option && takes_program(at, context)) {
    return Error(ErrorKind::kUsage, "'" + extras.front() + "' does not belong to `lockstep " + at.get_name() + "`",
                 "a program and its arguments come after two dashes: -- " + extras.front());
  }
  const std::string what = is_option ? "option" : names.empty() ? "argument" : "command";
  const std::string instead = is_option ? "" : show_instead(at, extras.front());
  return Error(ErrorKind::kUsage, "unknown " + what + " '" + extras.front() + "'",
               (near ? "did you mean '" + *near + "'? " : "") + instead + help);
}

/// Splits the words after the first `--` off the command line. The parser would interpret their options and brackets.
std::vector<std::string> split_off_program(int& argc, char** argv) {
  char** const end = argv + argc;
  char** const dashes = std::find(argv, end, std::string_view("--"));
  argc = static_cast<int>(dashes - argv);
  return {dashes == end ? end : dashes + 1, end};
}

void check_program(const CLI::App& app, const Context& context) {
  const auto chosen = app.get_subcommands();
  if (context.program.empty() || chosen.empty()) return;
  if (takes_program(*chosen.front(), context)) return;
  throw Error(ErrorKind::kUsage,
              "`lockstep " + chosen.front()->get_name() + "` takes no program, but was given '-- " +
                  context.program.front() + "'",
              "leave out `--` and what follows it");
}

/// Refuses `--name=` and empty words. A shell produces them from an unset variable, and the parser would take the next
/// word for the value.
void refuse_empty_values(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::string_view before = argv[i - 1];
    const bool is_named = word.starts_with("--") && word.find('=') == word.size() - 1;
    if (!word.empty() && !is_named) continue;
    const std::string name(is_named ? word.substr(0, word.size() - 1) : i > 1 && before.starts_with('-') ? before : "");
    throw Error(ErrorKind::kUsage,
                name.empty() ? "argument " + std::to_string(i) + " is empty" : name + " is given an empty value",
                "give it a value, or leave it out; a variable of the shell in its place may not be set");
  }
}

void parse(CLI::App& app, int argc, char** argv, const Context& context) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return;
  } catch (const CLI::ParseError& complaint) {
    throw usage_error(app, complaint, context);
  }
  if (app.get_subcommands().empty() && app.count("--version") == 0) {
    throw Error(ErrorKind::kUsage, "no command was given", "`lockstep --help` lists them");
  }
}

/// Blocks the warning signal for commands that start ranks. The ranks of a recipe unblock it once they have a handler
/// for it.
void hold_signal_of_ranks(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "train" || command == "exec") lockstep::hold_early_signal();
}

}  // namespace

int main(int argc, char** argv) {
  hold_signal_of_ranks(argc, argv);
  Context context;
  context.env = lockstep::Environment::of_process();
  context.log = lockstep::Log(2, "lockstep: ");
  try {
    CLI::App app("Lockstep trains neural networks, on one device or on a thousand nodes", "lockstep");
    // Sub-commands inherit it when they are added.
    app.formatter(std::make_shared<lockstep::cli::HelpFormatter>(
        static_cast<std::size_t>(lockstep::cli::columns_of(context.env)),
        [&context](const CLI::App& command) { return takes_program(command, context); }));
    app.require_subcommand(0, 1);
    lockstep::cli::add_version(app, context);
    lockstep::cli::add_train(app, context);
    lockstep::cli::add_eval(app, context);
    lockstep::cli::add_predict(app, context);
    lockstep::cli::add_data(app, context);
    lockstep::cli::add_bench(app, context);
    lockstep::cli::add_submit(app, context);
    lockstep::cli::add_ls(app, context);
    lockstep::cli::add_follow(app, context);
    lockstep::cli::add_monitor(app, context);
    lockstep::cli::add_stop(app, context);
    lockstep::cli::add_why(app, context);
    lockstep::cli::add_plan(app, context);
    lockstep::cli::add_scale(app, context);
    lockstep::cli::add_report(app, context);
    lockstep::cli::add_launch(app, context);
    lockstep::cli::add_exec(app, context);
    lockstep::cli::add_doctor(app, context);
    lockstep::cli::add_layout(app, context);
    lockstep::cli::add_hosts(app, context);
    lockstep::cli::add_snapshot(app, context);
    lockstep::cli::add_recipe(app, context);
    lockstep::cli::add_profile(app, context);
    lockstep::cli::add_setup(app, context);
    lockstep::cli::add_completion(app, context);
    context.program = split_off_program(argc, argv);
    refuse_empty_values(argc, argv);
    app.parse_complete_callback([&] { check_program(app, context); });
    parse(app, argc, argv, context);
    return context.exit_code;
  } catch (...) {
    return lockstep::report_failure(context.log);
  }
}
