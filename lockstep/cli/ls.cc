// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cluster/job/request.h"
#include "lockstep/cluster/job/run_end.h"
#include "lockstep/cluster/job/run_job.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/cluster/record/run_index.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep::cli {
namespace {

struct ListOptions {
  std::string folder;
  bool json = false;
};

void list(const ListOptions& options, const Context& context) {
  const auto places = options.folder.empty() ? run_places(context.env) : RunPlaces{options.folder};
  const auto& root = places.root;
  auto runs = run_jobs(places);
  std::int64_t since = 0;
  for (const auto& run : runs) since = std::max(since, last_news(run));
  const auto queue = runs.empty() ? std::optional(QueuedJobs{}) : queue_or_nothing(context, since);
  if (queue) learn_ends(runs, *queue, context.env);
  auto list = nlohmann::json::array();
  std::string text;
  for (const auto& run : runs) {
    const auto& record = run.record;
    const auto state = queue ? state_of(run, *queue) : state_without_queue(run);
    const bool is_queued = queue && queue->contains(record.job);
    const bool has_end = !is_queued && state != "finished" && state != "unknown";
    const auto code = has_end ? run_end(run) : std::nullopt;
    list.push_back({{"run_dir", run.path.string()},
                    {"job", record.job},
                    {"state", state},
                    {"exit_code", code ? nlohmann::json(code->code) : nlohmann::json(nullptr)},
                    {"cluster", record.cluster},
                    {"nodes", record.nodes},
                    {"tasks", record.tasks},
                    {"billing",
                     {{"unit", record.billing.unit},
                      {"most", record.billing.hours(static_cast<double>(record.time_s), record.nodes)}}}});
    text +=
        padded(record.job, 10) +
        padded(state + (state == "failed" && code ? " (" + std::to_string(code->code) + ")" : ""), 22) +
        padded(std::to_string(record.nodes) + " × " + std::to_string(record.tasks / std::max(record.nodes, 1)), 10) +
        padded(hh_mm_ss(std::chrono::seconds(record.time_s)), 11) +
        padded(billed_text(record.billing.hours(static_cast<double>(record.time_s), record.nodes), record.billing.unit),
               20) +
        run.path.string() + "\n";
  }
  if (options.json) return print_json({{"schema", 1}, {"root", root.string()}, {"runs", list}});
  print_text(text.empty() ? "no runs in " + root.string() + "\n" : text);
}

}  // namespace

std::optional<QueuedJobs> queue_or_nothing(const Context& context, std::int64_t since) {
  try {
    return SlurmQueue(context.env).jobs(since);
  } catch (const Error& error) {
    context.log.warning(error.what());
    return std::nullopt;
  }
}

std::filesystem::path runs_here(const Environment& env) {
  const auto settings = Recipe::without_file(env, {});
  const auto profile = ProfileLibrary(env).detected(HostFacts::of_process(env));
  const auto account = settings.has("cluster.account") ? settings.text("cluster.account") : std::string();
  return runs_folder(profile, account, env);
}

RunPlaces run_places(const Environment& env) { return {runs_here(env), remembered_runs(env)}; }

void add_ls(CLI::App& app, Context& context) {
  auto* command =
      app.add_subcommand("ls", "List submitted runs: job id, state, nodes × tasks, time, maximum cost, folder");
  auto options = std::make_shared<ListOptions>();
  command->add_option("FOLDER", options->folder, "The folder that holds the runs (default: where submit puts them)");
  command->add_flag("--json", options->json, "Print one JSON object on standard output");
  command->callback([options, &context] { list(*options, context); });
}

}  // namespace lockstep::cli
