// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/checksum.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/shell_text.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cluster/flag/sweep.h"
#include "lockstep/cluster/job/queue.h"
#include "lockstep/cluster/scale/study.h"
#include "lockstep/launch/process.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kBetweenStates{2};

struct ScaleOptions {
  std::string subject;  ///< A recipe, or the folder of a study. Empty for a program.
  std::vector<std::string> program;
  std::vector<std::string> sets;
  std::vector<std::string> passed;  ///< Options for `submit`, such as "--time=01:00:00".
  std::vector<int> nodes = {1, 2, 4};
  std::vector<std::string> vary;
  std::string study_dir;
  bool is_local = false;
  bool waits = true;
  bool dry_run = false;
  bool json = false;
};

/// Returns the command-line words that identify this study. The same words find the study again.
std::vector<std::string> words_of(const ScaleOptions& options) {
  std::vector<std::string> counts;
  for (const int each : options.nodes) counts.push_back(std::to_string(each));
  std::vector<std::string> words = {"lockstep", "scale"};
  if (!options.subject.empty()) words.push_back(options.subject);
  words.insert(words.end(), {"--nodes", joined(counts, ",")});
  if (options.is_local) words.emplace_back("--local");
  for (const auto& text : options.vary) words.insert(words.end(), {"--vary", text});
  for (const auto& text : options.sets) words.insert(words.end(), {"--set", text});
  words.insert(words.end(), options.passed.begin(), options.passed.end());
  if (!options.program.empty()) {
    words.emplace_back("--");
    words.insert(words.end(), options.program.begin(), options.program.end());
  }
  return words;
}

/// Returns the name of a study. It comes from its recipe, or from the script of its program, or else from the program.
std::string study_name(const ScaleOptions& options) {
  if (options.program.empty()) return fs::path(options.subject).stem().string();
  const auto script =
      std::ranges::find_if(options.program, [](const auto& word) { return fs::path(word).extension() == ".py"; });
  return fs::path(script == options.program.end() ? options.program.front() : *script).stem().string();
}

fs::path study_folder(const ScaleOptions& options, const std::string& command, const Context& context) {
  if (!options.study_dir.empty()) return fs::absolute(options.study_dir).lexically_normal();
  const auto root = options.is_local ? fs::absolute("runs") : runs_here(context.env);
  return root / (study_name(options) + "-scale-" + hex64(xxh3_64(command)).substr(0, 8));
}

/// Returns the study that the options mean, an existing or a new one.
Study study_of(ScaleOptions& options, const Context& context) {
  if (options.subject.empty() && options.program.empty()) {
    throw Error(ErrorKind::kUsage, "nothing to run was given",
                "lockstep scale RECIPE --nodes 1,2,4, or: lockstep scale --nodes 1,2,4 -- python train.py");
  }
  if (auto there = options.subject.empty() ? std::nullopt : read_study(options.subject)) {
    there->folder = fs::absolute(there->folder).lexically_normal();
    options.subject.clear();
    return *there;
  }
  check_nodes(options.nodes);
  const auto command = shell_quoted(words_of(options));
  const auto folder = study_folder(options, command, context);
  if (auto there = read_study(folder)) {
    if (there->command != command) {
      throw Error(ErrorKind::kUsage, "'" + folder.string() + "' holds another study: " + there->command,
                  "name another folder with --study-dir");
    }
    context.log.info("continues the study in " + folder.string() + "; remove it to start again");
    return *there;
  }
  return {.folder = folder,
          .is_local = options.is_local,
          .is_program = !options.program.empty(),
          .command = command,
          .points = study_points(options.nodes, options.vary)};
}

std::vector<PointState> states_of(const Study& study, const QueuedJobs& queue) {
  std::vector<PointState> states;
  for (const auto& point : study.points) states.push_back(state_of(study, point, queue));
  return states;
}

/// A study that was found by its folder has no recipe. Its own command must start the missing runs.
[[noreturn]] void refuse_without_recipe(const Study& study) {
  throw Error(ErrorKind::kUsage, "the study in '" + study.folder.string() + "' has runs that were never started",
              "repeat its command: " + study.command);
}

/// Returns the command `lockstep VERB RECIPE` for one point of the study.
std::vector<std::string> command_of(const std::string& verb, const ScaleOptions& options, const Study& study,
                                    const StudyPoint& point) {
  std::vector<std::string> command = {this_program().string(), verb};
  if (!study.is_program) command.push_back(options.subject);
  command.insert(command.end(), {"--run-dir", study.run_dir(point).string()});
  if (study.is_program) return command;
  for (const auto& text : options.sets) command.insert(command.end(), {"--set", text});
  for (const auto& text : point.sets) command.insert(command.end(), {"--set", text});
  return command;
}

/// Returns `command` and the program after it, with the point's values filled in. For a recipe nothing is appended.
std::vector<std::string> with_program(std::vector<std::string> command, const ScaleOptions& options,
                                      const StudyPoint& point) {
  if (options.program.empty()) return command;
  const auto program = command_of_trial(options.program, {.sets = point.sets, .name = {}});
  command.emplace_back("--");
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

/// The messages that commands have printed on standard error. All points of a study print the same ones.
class Said {
 public:
  /// Prints the new messages of `errors`, each with the lines that belong to it.
  void print_new(const std::string& errors) {
    std::string message;
    const auto end = [&] {
      if (!message.empty() && told_.insert(message).second) std::cerr << message;
      message.clear();
    };
    for (const auto& line : split(trimmed(errors), '\n')) {
      if (line.starts_with("lockstep: ")) end();
      if (!line.empty()) message += line + "\n";
    }
    end();
  }

 private:
  std::set<std::string> told_;
};

/// Returns a command's output. Returns nothing if the command failed. The command has then printed the reason, and its
/// exit code becomes that of this command.
std::optional<std::string> output_of(const std::vector<std::string>& command, Said& said, Context& context) {
  const auto result = run_process(command, context.env);
  said.print_new(result.errors);
  if (result.exit_code == 0) return result.output;
  context.exit_code = result.exit_code;
  return std::nullopt;
}

/// Submits the missing runs. All jobs are planned before the first one is submitted. Returns true if Slurm refused
/// none.
bool submit_absent(const ScaleOptions& options, const Study& study, Context& context) {
  std::vector<std::vector<std::string>> commands;
  auto planned = nlohmann::json::array();
  Said said;
  for (const auto& point : study.points) {
    if (state_of(study, point, {}) != PointState::kAbsent) continue;
    if (options.subject.empty() && options.program.empty()) refuse_without_recipe(study);
    auto command = command_of("submit", options, study, point);
    command.insert(command.end(), {"--nodes", std::to_string(point.nodes)});
    command.insert(command.end(), options.passed.begin(), options.passed.end());
    auto dry = command;
    dry.emplace_back("--dry-run");
    if (options.json) dry.emplace_back("--json");
    const auto script = output_of(with_program(dry, options, point), said, context);
    if (!script) return false;
    command.emplace_back("--json");
    commands.push_back(with_program(std::move(command), options, point));
    if (options.json) {
      planned.push_back(nlohmann::json::parse(*script));
    } else if (options.dry_run) {
      print_text(*script);
    }
  }
  if (options.dry_run) {
    if (options.json) print_json({{"schema", 1}, {"study_dir", study.folder.string()}, {"jobs", planned}});
    return true;
  }
  write_study(study);
  for (const auto& command : commands) {
    const auto output = output_of(command, said, context);
    if (!output) return false;
    const auto job = nlohmann::json::parse(*output);
    context.log.info("job " + job.at("job").get<std::string>() + ": " + counted(job.at("nodes"), "node") + ", " +
                     counted(job.at("tasks"), "rank") + ", " + job.at("run_dir").get<std::string>());
  }
  if (!commands.empty()) SlurmQueue(context.env).forget();
  return true;
}

/// Waits until no job of the study is queued. Returns Slurm's last answer.
QueuedJobs wait_for_jobs(const Study& study, const Context& context) {
  QueuePoll view(context.env, context.log);
  std::string shown;
  while (true) {
    view.ask();
    const auto states = states_of(study, view.jobs());
    if (const auto text = progress_of(states); text != shown) {
      shown = text;
      context.log.info(text);
    }
    const bool goes_on = std::ranges::any_of(
        states, [](auto state) { return state == PointState::kWaiting || state == PointState::kRunning; });
    if (!goes_on) return view.jobs();
    std::this_thread::sleep_for(kBetweenStates);
  }
}

/// Returns the command that runs one point on this machine.
std::vector<std::string> local_command(const ScaleOptions& options, const Study& study, const StudyPoint& point) {
  if (study.is_program) {
    make_folder(study.run_dir(point));
    return with_program({this_program().string(), "launch", "-n", std::to_string(point.nodes)}, options, point);
  }
  auto command = command_of("train", options, study, point);
  command.insert(command.end(), {"--devices", std::to_string(point.nodes)});
  return command;
}

/// Runs the unfinished points one after the other. A failing run ends the study with its code.
void run_locally(const ScaleOptions& options, const Study& study, Context& context) {
  write_study(study);
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    const auto& point = study.points[i];
    if (state_of(study, point, {}) == PointState::kFinished) continue;
    if (options.subject.empty() && options.program.empty()) refuse_without_recipe(study);
    context.log.info("run " + std::to_string(i + 1) + " of " + std::to_string(study.points.size()) + ": " +
                     counted(point.nodes, "rank") + " " + point.label());
    const auto started = std::chrono::steady_clock::now();
    const auto result = run_process(local_command(options, study, point), context.env);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    if (result.exit_code == 0 && study.is_program) write_program_time(study.run_dir(point), point.nodes, took.count());
    if (result.exit_code == 0) continue;
    std::cerr << result.errors;
    context.exit_code = result.exit_code;
    return;
  }
}

/// Tells of the runs that have not finished, if there are any.
void report_failures(const Study& study, const QueuedJobs& queue, Context& context) {
  const auto states = states_of(study, queue);
  if (std::ranges::count(states, PointState::kFinished) == std::ssize(states)) return;
  for (const auto& point : study.points) {
    if (state_of(study, point, queue) != PointState::kFailed) continue;
    context.log.error("the run on " + counted(point.nodes, "node") + " " +
                      (study.is_program ? "failed" : "ended without a result") + "\n  hint: its log is " +
                      (study.run_dir(point) / "logs" / "job.log").string());
  }
  context.exit_code = exit_code(ErrorKind::kEnvironment);
}

void show(const Study& study, const ScaleOptions& options) {
  const auto rows = study_rows(study);
  if (rows.empty()) return;
  write_results(study, rows);
  if (options.json) {
    print_json({{"schema", 1}, {"study_dir", study.folder.string()}, {"rows", scaling_json(rows)}});
  } else {
    print_text(markdown_table(scaling_table(rows)) + "\nstudy folder " + study.folder.string() + "\n");
  }
}

void check_local(const ScaleOptions& options) {
  if (!options.is_local || (options.passed.empty() && !options.dry_run && options.waits)) return;
  throw Error(
      ErrorKind::kUsage,
      "--local runs on this machine, but " +
          (options.passed.empty() ? std::string(options.dry_run ? "--dry-run" : "--no-wait") : options.passed.front()) +
          " is of jobs",
      "leave one of them out");
}

/// A program other than a recipe has no settings of Lockstep.
void check_program(const ScaleOptions& options) {
  if (options.program.empty()) return;
  if (!options.subject.empty()) {
    throw Error(ErrorKind::kUsage, "'" + options.subject + "' and a program after -- were given, want one of them",
                "leave one out");
  }
  if (!options.sets.empty())
    throw Error(ErrorKind::kUsage, "--set is of recipes, but a program is given", "write it into the program's words");
}

void scale(ScaleOptions& options, Context& context) {
  options.program = context.program;
  check_program(options);
  check_local(options);
  const auto study = study_of(options, context);
  if (study.is_local) {
    run_locally(options, study, context);
    return show(study, options);
  }
  if (!submit_absent(options, study, context) || options.dry_run) return;
  if (!options.waits) {
    context.log.info("lockstep scale " + shell_quoted({study.folder.string()}) + " waits for it and makes the table");
    return show(study, options);
  }
  report_failures(study, wait_for_jobs(study, context), context);
  show(study, options);
}

/// Adds an option that is passed to `submit` unchanged.
void add_passed(CLI::App& command, std::vector<std::string>& passed, const std::string& flag, const std::string& help) {
  command
      .add_option_function<std::vector<std::string>>(
          flag,
          [&passed, flag](const std::vector<std::string>& values) {
            for (const auto& value : values) passed.push_back(flag + "=" + value);
          },
          help)
      ->type_name("VALUE")
      ->allow_extra_args(false);
}

}  // namespace

void add_scale(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("scale",
                                     "Run a scaling study: train a recipe, or run a program after --, on several "
                                     "numbers of nodes, and tabulate the results");
  auto options = std::make_shared<ScaleOptions>();
  command->add_option("RECIPE", options->subject,
                      "A TOML file, a built-in recipe's name, or the folder of a study; a program goes after --");
  context.program_takers.push_back(command);
  command->add_option("--nodes", options->nodes, "Numbers of nodes, for example 1,2,4; with --local, numbers of ranks")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N,N…");
  command->add_flag("--local", options->is_local, "Run on this machine, one run after the other");
  command
      ->add_option(
          "--vary", options->vary,
          "Repeat the study for each value of a setting (table.key=v,w), or of {NAME} in a program's words (NAME=v,w)")
      ->type_name("NAME=V,W")
      ->allow_extra_args(false);
  command->add_option("--set", options->sets, "Set one setting of the recipe; may be repeated")
      ->type_name("TABLE.KEY=VALUE")
      ->allow_extra_args(false);
  for (const auto* flag : {"--devices", "--tasks-per-node", "--cores-per-task", "--cluster", "--account", "--partition",
                           "--qos", "--time", "--container", "--conda", "--sbatch"}) {
    add_passed(*command, options->passed, flag, "As for `lockstep submit`");
  }
  command->add_option("--study-dir", options->study_dir, "The folder of the study")->type_name("DIR");
  command->add_flag("!--no-wait", options->waits, "Submit and return; run the same command later for the table");
  command->add_flag("--dry-run", options->dry_run, "Print the batch scripts, and create nothing");
  command->add_flag("--json", options->json, "Print one JSON object on standard output");
  command->callback([&context, options] { scale(*options, context); });
}

}  // namespace lockstep::cli
