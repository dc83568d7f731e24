// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/base/log.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

/// The arguments that main() passes to every sub-command: environment, streams and programs.
struct Context {
  Environment env;
  Log log;
  int exit_code = 0;                 ///< Exit code of the command. If it throws an Error, the error's kind decides
                                     ///< instead.
  std::vector<std::string> program;  ///< The program and its arguments after the first `--`, unchanged.
  std::vector<const CLI::App*> program_takers;  ///< The sub-commands that may be given one.
};

/// Writes `object` to standard output, as one line.
///
/// Throws: Error(kIo) if standard output cannot be written.
void print_json(const nlohmann::json& object);

/// Writes `text` to standard output as it is.
///
/// Throws: Error(kIo) if standard output cannot be written.
void print_text(const std::string& text);

/// Returns the width for text. The width is $COLUMNS, or else the terminal's width, or else 80.
int columns_of(const Environment& env);

/// Returns a table of the settings that most recipes set, with key and help, in lines of at most `columns` characters.
std::string common_settings_table(std::size_t columns);

/// Each function adds one sub-command to `app`. The sub-command's callback does the work. `context` must outlive the
/// parsing.
void add_version(CLI::App& app, Context& context);
void add_layout(CLI::App& app, Context& context);
void add_hosts(CLI::App& app, Context& context);
void add_launch(CLI::App& app, Context& context);
void add_exec(CLI::App& app, Context& context);
void add_train(CLI::App& app, Context& context);
void add_eval(CLI::App& app, Context& context);
void add_predict(CLI::App& app, Context& context);
void add_data(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);
void add_submit(CLI::App& app, Context& context);
void add_profile(CLI::App& app, Context& context);
void add_doctor(CLI::App& app, Context& context);
void add_ls(CLI::App& app, Context& context);
void add_follow(CLI::App& app, Context& context);
void add_monitor(CLI::App& app, Context& context);
void add_stop(CLI::App& app, Context& context);
void add_why(CLI::App& app, Context& context);
void add_plan(CLI::App& app, Context& context);
void add_scale(CLI::App& app, Context& context);
void add_report(CLI::App& app, Context& context);
void add_snapshot(CLI::App& app, Context& context);
void add_recipe(CLI::App& app, Context& context);
void add_setup(CLI::App& app, Context& context);
void add_completion(CLI::App& app, Context& context);

/// Each function adds a command to `lockstep snapshot`.
void add_snapshot_export(CLI::App& snapshot, Context& context);
void add_snapshot_diff(CLI::App& snapshot, Context& context);

}  // namespace lockstep::cli
