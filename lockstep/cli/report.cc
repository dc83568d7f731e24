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
#include "lockstep/cli/commands.h"
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

/// Each run's folder; those of a study's points that have begun in the study's place.
std::vector<fs::path> folders_of(const std::vector<std::string>& words, const Context& context) {
  std::vector<fs::path> folders;
  for (const auto& word : words) {
    auto folder = named_folder(word, run_places(context.env));
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

/// What Slurm says of the runs.
struct SlurmAnswer {
  std::optional<QueuedJobs> queue{};                  ///< If one of the runs may still be in it.
  std::map<fs::path, std::optional<JobExit>> ends{};  ///< What a run's folder could not keep.
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

ReportPage page_of(const std::vector<fs::path>& folders, const Context& context) {
  ReportPage page;
  auto slurm = asked_slurm(folders, context);
  for (const auto& folder : folders) {
    page.runs.push_back(run_report(folder, slurm.queue, context.env, slurm.ends[folder]));
    page.tunnels.push_back(tensorboard_tunnel(page.runs.back(), context.env));
  }
  if (page.runs.size() > 1) page.comparison = compared(page.runs);
  return page;
}

void report(const ReportOptions& options, const Context& context) {
  const auto folders = folders_of(options.runs, context);
  if (folders.empty()) {
    throw Error(ErrorKind::kData, "the study in '" + options.runs.front() + "' has not started a run yet",
                "`lockstep scale " + options.runs.front() + "` goes on with it");
  }
  const auto page = page_of(folders, context);
  if (!options.html.empty()) {
    write_whole(options.html, report_html(page), false);
    context.log.info("wrote " + options.html);
  }
  if (options.json)
    return print_text(report_json(page).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (options.html.empty()) print_text(report_text(page));
}

}  // namespace

void add_report(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("report", "What a run was, where its time went, what held it up; or several compared");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("RUN", options->runs, "Run folders, their names, their jobs' numbers, or a study's folder")
      ->required();
  command->add_option("--html", options->html, "Write it as one page with charts instead")->type_name("FILE");
  command->add_flag("--json", options->json, "As one JSON object on standard output");
  command->callback([options, &context] { report(*options, context); });
}

}  // namespace lockstep::cli
