// SPDX-License-Identifier: Apache-2.0
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cluster/job/run_end.h"
#include "lockstep/cluster/monitor/live_nodes.h"
#include "lockstep/cluster/monitor/run_watch.h"
#include "lockstep/cluster/monitor/status_json.h"
#include "lockstep/cluster/monitor/status_text.h"
#include "lockstep/launch/process.h"
#include "lockstep/observe/progress.h"
#include "lockstep/observe/terminal_line.h"
#include "lockstep/observe/wall_clock.h"

namespace lockstep::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLookEvery{2};
constexpr seconds kBetweenBlocks{30};     // Not on a terminal.
constexpr seconds kBetweenQuestions{30};  // To a job's nodes: each starts a step.
constexpr milliseconds kBetweenSamples{1000};

struct MonitorOptions {
  std::string run;
  std::string this_node;  ///< A job's number, on one of its nodes.
  bool once = false;
  bool json = false;
  bool live = false;
};

/// Returns Slurm's queue, which is asked only now and then. If Slurm does not answer, its last answer counts. Absent if
/// it has never answered.
class QueueWatch {
 public:
  explicit QueueWatch(const Context& context) : context_(context), view_(context.env) {}

  /// The run for which the queue is asked.
  void look_for(const std::filesystem::path& run_dir) {
    const auto record = job_record(run_dir);
    if (record) run_ = RunJob{run_dir, *record};
  }
  const std::optional<QueuedJobs>& jobs() {
    if (!asked_ || Clock::now() - *asked_ >= SlurmQueue::kQueueAge) ask();
    return jobs_;
  }
  /// Call this once when the run reports its end, since the stored answer does not show the end.
  void ask_of_end() {
    if (std::exchange(has_asked_of_end_, true)) return;
    view_.forget();
    ask();
  }

 private:
  void ask() {
    asked_ = Clock::now();
    try {
      jobs_ = view_.jobs(run_ ? last_news(*run_) : 0);
      if (run_) learn_ends({&*run_, 1}, *jobs_, context_.env);
    } catch (const Error& error) {
      if (!std::exchange(has_warned_, true)) context_.log.warning(error.what());
    }
  }

  const Context& context_;
  SlurmQueue view_;
  std::optional<RunJob> run_;
  std::optional<QueuedJobs> jobs_;
  std::optional<Clock::time_point> asked_;
  bool has_asked_of_end_ = false;
  bool has_warned_ = false;
};

/// Shows blocks of text. On a terminal each block replaces the one before. Elsewhere blocks follow each other, at
/// longer intervals.
class Screen {
 public:
  explicit Screen(const Environment& env) : options_(progress_options(STDOUT_FILENO, 0, env)) {}

  void show(const RunStatus& status, bool is_last) {
    const auto now = Clock::now();
    if (!options_.is_terminal && !is_last && shown_ && now - *shown_ < kBetweenBlocks) return;
    shown_ = now;
    const auto block = text_of(view_of(status), room());
    if (!options_.is_terminal) return print_text(block + (is_last ? "" : "\n"));
    const std::string back = lines_ > 0 ? "\x1b[" + std::to_string(lines_) + "F\x1b[J" : "";
    lines_ = std::ranges::count(block, '\n');
    print_text(back + block);
  }

 private:
  ViewRoom room() const {
    if (!options_.is_terminal) return {};
    winsize size{};
    const bool is_told = ::ioctl(options_.fd, TIOCGWINSZ, &size) == 0;
    return {.columns = room_of(options_.fd, options_.columns),
            .rows = is_told && size.ws_row > 2 ? size.ws_row - 1 : 0,
            .colour = options_.colour};
  }

  ProgressOptions options_;
  std::optional<Clock::time_point> shown_;
  std::ptrdiff_t lines_ = 0;
};

double now() { return unix_seconds(std::chrono::system_clock::now()); }

bool is_job_number(const std::string& word) {
  return !word.empty() &&
         std::ranges::all_of(split(word, '_'), [](const auto& part) { return parsed_int<long>(part).has_value(); });
}

/// The target of the command. It is a run's folder, a job's nodes, both, or this machine.
class Watched {
 public:
  Watched(const MonitorOptions& options, Context& context) : options_(options), context_(context), queue_(context) {
    std::error_code none;
    const bool is_folder = std::filesystem::is_directory(options.run, none);
    if (options.live && !is_folder && is_job_number(options.run)) {
      job_ = options.run;
    } else if (options.live && options.run.empty()) {
      job_ = context.env.get("SLURM_JOB_ID").value_or("");
    } else {
      const auto places = run_places(context.env);
      const auto run_dir = options.run.empty() ? latest_run(places) : watched_run(options.run, places);
      queue_.look_for(run_dir);
      watch_.emplace(run_dir);
    }
  }

  RunStatus look() {
    auto status =
        watch_ ? watch_->look(watch_->has_job() ? queue_.jobs() : std::nullopt, now()) : RunStatus{.job = job_};
    if (!options_.live) return status;
    if (watch_ && status.job.empty()) {
      throw Error(ErrorKind::kUsage, "'" + status.run_dir.string() + "' has no job, so --live has no nodes to ask",
                  "leave out --live; the folder shows what the run has written");
    }
    if (status.job.empty()) {
      status.node_list = {this_machine("", context_.env, kBetweenSamples)};
      status.name = status.node_list.front().node;
      return status;
    }
    ask_nodes(status);
    return status;
  }

  /// The run seems to have ended, so the next round asks the queue again.
  void make_sure() {
    if (watch_ && watch_->has_job()) queue_.ask_of_end();
  }
  bool has_seldom_news() const { return options_.live && (watch_ || !job_.empty()); }

 private:
  void ask_nodes(RunStatus& status) {
    try {
      take_answer(status, live_job(status.job, context_.env));
      shown_ = status;
    } catch (const JobNotRunning&) {
      if (!shown_) throw;
      status.is_over = true;
      status.state = "ended";
    } catch (const Error& error) {
      // A busy Slurm may answer the next time.
      if (!shown_) throw;
      if (!std::exchange(has_warned_, true)) context_.log.warning(error.what());
      status = *shown_;
      status.note = "Slurm does not answer now; this is from before";
    }
  }

  /// Asks the nodes of `job`, and sets what they answer.
  void take_answer(RunStatus& status, const LiveJob& job) {
    auto answer = asked_nodes(job, this_program(), context_.env);
    if (!answer.refusal.empty()) {
      context_.log.warning("not all nodes answer: " + answer.refusal);
      context_.exit_code = exit_code(ErrorKind::kEnvironment);
    }
    status.node_list = std::move(answer.nodes);
    status.state = "running";
    status.note.clear();
    status.nodes = static_cast<int>(job.nodes.size());
    if (status.name.empty()) status.name = job.name;
    status.is_over = false;
    if (status.odd_rank) status.odd_rank = odd_rank(status.node_list);
  }

  const MonitorOptions& options_;
  Context& context_;
  QueueWatch queue_;
  std::optional<RunWatch> watch_;
  std::string job_;
  std::optional<RunStatus> shown_;  ///< With the last answer of the job's nodes.
  bool has_warned_ = false;
};

/// True if the run's own files say that it has ended. Its job may continue for a moment, or start once more.
bool seems_over(const RunStatus& status) {
  const auto& nodes = status.node_list;
  return (status.training && status.training->has_ended) ||
         (!nodes.empty() && std::ranges::all_of(nodes, &NodeStatus::has_ended));
}

void monitor(const MonitorOptions& options, Context& context) {
  if (!options.this_node.empty()) {
    return print_text(answer_of_this_node(options.this_node, context.env, kBetweenSamples));
  }
  Watched subject(options, context);
  if (options.json) return print_json(json_of(subject.look()));
  Screen screen(context.env);
  bool seemed_over = false;
  while (true) {
    const auto status = subject.look();
    const bool seems_so = seems_over(status);
    if (seemed_over && seems_so) subject.make_sure();
    seemed_over = seems_so;
    screen.show(status, options.once || status.is_over);
    if (options.once || status.is_over) return;
    std::this_thread::sleep_for(subject.has_seldom_news() ? kBetweenQuestions : kLookEvery);
  }
}

}  // namespace

void add_monitor(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "monitor", "Show what a run's tasks, nodes and devices are doing, and what is wrong, until it ends");
  auto options = std::make_shared<MonitorOptions>();
  command->add_option(
      "RUN", options->run,
      "The run: its folder, its name or its Slurm job id (default: the latest run). With --live: any job of yours");
  command->add_flag("--once", options->once, "Show it once, and exit");
  command->add_flag("--json", options->json, "Print it once, as one JSON object on standard output");
  command->add_flag("--live", options->live,
                    "Ask the job's nodes now, whatever started the job; outside a job, this machine");
  command->add_option("--this-node", options->this_node)->group("");
  command->callback([options, &context] { monitor(*options, context); });
}

}  // namespace lockstep::cli
