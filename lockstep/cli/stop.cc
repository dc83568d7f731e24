// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/help/help_formatter.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cluster/job/run_job.h"
#include "lockstep/cluster/record/ask_run.h"
#include "lockstep/observe/view_lines.h"

namespace lockstep::cli {
namespace {

void stop_local(const std::filesystem::path& run) {
  if (!ask_to_stop(run)) {
    throw Error(ErrorKind::kEnvironment, "no training runs in '" + run.string() + "'",
                "it has ended, or has not taken its first step yet");
  }
  print_text("the run writes a snapshot and ends\n");
}

/// Returns the number of ranks of a run. 0 if its folder does not tell.
std::int64_t world_of(const std::filesystem::path& run_dir) {
  const auto layout = nlohmann::json::parse(text_or_nothing(run_dir / "layout.json"), nullptr, false);
  return layout.is_object() ? layout.value("world", std::int64_t{0}) : 0;
}

std::string why_text(const nlohmann::json& answer, std::int64_t world) {
  std::string text;
  for (const auto& rank : answer.at("ranks")) {
    text += rank.at("text").get<std::string>() + "\n";
    for (const auto& line : view_lines(rank)) text += "    " + line + "\n";
  }
  const auto told = std::ssize(answer.at("ranks"));
  if (told < world)
    text += counted(world - told, "other rank") + " cannot be asked: no parent of theirs watches them\n";
  if (answer.contains("nccl") && answer.at("nccl").is_string()) {
    text += "NCCL says:\n";
    for (const auto& line : split(answer.at("nccl").get<std::string>(), '\n')) text += "    " + line + "\n";
  }
  const auto& verdict = answer.at("verdict");
  return text + (verdict.is_null() ? "nobody holds up the others" : verdict.at("text").get<std::string>()) + "\n";
}

}  // namespace

void add_why(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("why", "Show what each rank of a run does now, and who holds up the others");
  auto run = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("RUN", *run, "The run: its folder, its name or its Slurm job id")->required();
  command->add_flag("--json", *json, "Print one JSON object");
  command->footer(wrapped("If Lockstep did not start the job, use `lockstep monitor --live JOB`.",
                          static_cast<std::size_t>(columns_of(context.env)), ""));
  command->callback([run, json, &context] {
    // Also a folder without layout.json or job, since a program of any kind may run there.
    const auto folder = named_folder(*run, run_places(context.env));
    const auto answer = ask_why(folder);
    *json ? print_json(answer) : print_text(why_text(answer, world_of(folder)));
  });
}

void add_stop(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("stop", "Stop a run; a recipe's run writes a snapshot first");
  auto run = std::make_shared<std::string>();
  command->add_option("RUN", *run, "The run: its folder, its name or its Slurm job id")->required();
  command->footer(wrapped(
      "A recipe's run, or a Python program with `import lockstep`, writes a snapshot and ends. This command returns as "
      "soon as the run has seen the request. Another program's job, or a job that waits in the queue, is cancelled "
      "with scancel. No further job of the run starts. The same `lockstep train` or `submit` with --run-dir continues "
      "a recipe's run.",
      static_cast<std::size_t>(columns_of(context.env)), ""));
  command->callback([run, &context] {
    if (const auto local = local_run(*run, run_places(context.env))) return stop_local(*local);
    const SlurmQueue view(context.env);
    // Asks Slurm again, since a job that has just started must be stopped in another way than one that waits.
    view.forget();
    const auto done = stop_run(run_job(*run, run_places(context.env)), view.jobs(), context.env);
    view.forget();
    print_text(done + "\n");
  });
}

}  // namespace lockstep::cli
