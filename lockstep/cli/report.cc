// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/help/help_formatter.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cluster/job/run_end.h"
#include "lockstep/cluster/job/run_job.h"
#include "lockstep/cluster/report/html.h"
#include "lockstep/cluster/report/json.h"
#include "lockstep/cluster/report/page.h"
#include "lockstep/cluster/report/text.h"
#include "lockstep/cluster/scale/study.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

struct ReportOptions {
  std::vector<std::string> runs;
  std::string html;
  bool json = false;
};

/// Returns the sweep if it is the only folder that was asked for. Its runs are not read yet.
std::optional<SweepReport> sweep_of(const std::vector<std::string>& words, const Context& context) {
  if (words.size() != 1) return std::nullopt;
  const auto folder = named_folder(words.front(), run_places(context.env));
  auto trials = kept_sweep(folder);
  if (!trials) return std::nullopt;
  return SweepReport{.name = folder.filename().string(), .trials = std::move(*trials), .runs = {}};
}

/// Returns the existing folders of a sweep's trials.
std::vector<fs::path> trial_folders(const fs::path& folder, const std::vector<SweptTrial>& trials) {
  std::vector<fs::path> folders;
  for (const auto& trial : trials) {
    std::error_code ignored;
    if (fs::is_directory(folder / trial.name, ignored)) folders.push_back(folder / trial.name);
  }
  return folders;
}

/// Returns the folders of all runs. A study is replaced by the folders of its points that have begun, and a sweep by
/// those of its trials.
std::vector<fs::path> folders_of(const std::vector<std::string>& words, const Context& context) {
  std::vector<fs::path> folders;
  for (const auto& word : words) {
    auto folder = named_folder(word, run_places(context.env));
    if (const auto trials = kept_sweep(folder)) {
      for (auto& trial : trial_folders(folder, *trials)) folders.push_back(std::move(trial));
      continue;
    }
    const auto study = read_study(folder);
    if (!study) {
      folders.push_back(std::move(folder));
      continue;
    }
    for (const auto& point : study->points) {
      std::error_code ignored;
      if (fs::is_directory(study->run_dir(point), ignored)) folders.push_back(study->run_dir(point));
    }
  }
  return folders;
}

/// Slurm's answers about the runs: its queue, and how jobs ended.
struct SlurmAnswer {
  std::optional<QueuedJobs> queue{};                  ///< If one of the runs may still be in it.
  std::map<fs::path, std::optional<JobExit>> ends{};  ///< The ends of runs whose folders could not record them.
};

SlurmAnswer asked_slurm(const std::vector<fs::path>& folders, const Context& context) {
  std::vector<RunJob> runs;
  std::int64_t since = 0;
  for (const auto& folder : folders) {
    std::error_code ignored;
    auto record = job_record(folder);
    if (!record || fs::exists(folder / "result.json", ignored)) continue;
    runs.push_back({folder, std::move(*record), {}});
    since = std::max(since, last_news(runs.back()));
  }
  if (runs.empty()) return {};
  SlurmAnswer answer{.queue = queue_or_nothing(context, since)};
  if (answer.queue) learn_ends(runs, *answer.queue, context.env);
  for (const auto& run : runs) answer.ends[run.path] = run.learned;
  return answer;
}

/// Sets the run of each trial. `runs` has them by the name of their folder.
void fill(SweepReport& sweep, const std::vector<RunReport>& runs) {
  for (const auto& trial : sweep.trials) {
    const auto it = std::ranges::find(runs, trial.name, [](const auto& run) { return run.path.filename().string(); });
    sweep.runs.push_back(it == runs.end() ? std::nullopt : std::optional(*it));
  }
}

ReportPage page_of(const std::vector<fs::path>& folders, std::optional<SweepReport> sweep, const Context& context) {
  ReportPage page;
  auto slurm = asked_slurm(folders, context);
  for (const auto& folder : folders) {
    page.runs.push_back(run_report(folder, slurm.queue, context.env, slurm.ends[folder]));
    page.tunnels.push_back(tensorboard_tunnel(page.runs.back(), context.env));
  }
  if (sweep) {
    fill(*sweep, page.runs);
    page.sweep = std::move(sweep);
  } else if (page.runs.size() > 1) {
    page.comparison = compared(page.runs);
  }
  return page;
}

void report(const ReportOptions& options, const Context& context) {
  const auto folders = folders_of(options.runs, context);
  if (folders.empty()) {
    throw Error(ErrorKind::kData, "the study or sweep in '" + options.runs.front() + "' has no run's folder yet",
                "`lockstep ls` shows the runs that there are; `lockstep scale STUDY` continues a study");
  }
  const auto page = page_of(folders, sweep_of(options.runs, context), context);
  if (!options.html.empty()) {
    write_whole(options.html, report_html(page), false);
    context.log.info("wrote " + options.html);
  }
  if (options.json) return print_text(json_text(report_json(page)) + "\n");
  if (options.html.empty()) print_text(report_text(page));
}

}  // namespace

void add_report(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("report", "Report what a run did and where its time went, or compare several runs in a table");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("RUN", options->runs, "Runs by folder, name or Slurm job id, or the folder of a study or a sweep")
      ->required();
  command->add_option("--html", options->html, "Write an HTML page with charts instead")->type_name("FILE");
  command->add_flag("--json", options->json, "Print one JSON object on standard output");
  command->footer(examples_section(
      {{"lockstep report runs/mnist-1", "Report what limited this run, its speed, its epochs and its nodes."},
       {"lockstep report runs/mnist-1 runs/mnist-2 runs/mnist-3",
        "Compare runs in a table, one row for each: step time, throughput, speed-up, efficiency and node-hours."}},
      static_cast<std::size_t>(columns_of(context.env))));
  command->callback([options, &context] { report(*options, context); });
}

}  // namespace lockstep::cli
