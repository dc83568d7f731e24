// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/run_commands.h"
#include "lockstep/cluster/job/run_end.h"
#include "lockstep/cluster/job/run_job.h"
#include "lockstep/cluster/record/exit_record.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{500};
constexpr std::chrono::seconds kBetweenQuestionsAtItsEnd{1};
constexpr std::streamoff kMostOfThePast = 64 << 10;  // The part of the log for a person who comes late.

/// A log that another process appends to.
class Tail {
 public:
  explicit Tail(std::filesystem::path path) : path_(std::move(path)) {}

  /// Prints the new part of the log. Returns true if there was any.
  bool print() {
    std::ifstream file(path_, std::ios::binary);
    if (!file) return false;
    file.seekg(0, std::ios::end);
    const auto end = static_cast<std::streamoff>(file.tellg());
    const bool is_late = at_ < 0 && end > kMostOfThePast;
    if (at_ < 0) at_ = is_late ? end - kMostOfThePast : 0;
    if (end <= at_) return false;
    file.seekg(at_);
    std::string text(static_cast<std::size_t>(end - at_), '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    at_ += file.gcount();
    // The output must not begin in the middle of a line.
    print_text(is_late ? text.substr(text.find('\n') + 1) : text);
    return true;
  }

 private:
  std::filesystem::path path_;
  std::streamoff at_ = -1;
};

/// A run's state in Slurm's queue. The queue is asked seldom while the job runs, and often once its script has ended.
class FollowedJob {
 public:
  FollowedJob(RunJob run, const Context& context)
      : run_(std::move(run)), context_(context), view_(context.env, context.log), ends_(count_ends()) {}

  /// Asks the queue, unless it was asked a short time ago. Returns true if the job is in the queue.
  bool look() {
    if (const auto ends = count_ends(); ends != ends_) {
      ends_ = ends;
      is_ending_ = true;
      asked_.reset();
    }
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::seconds age = is_ending_ ? kBetweenQuestionsAtItsEnd : SlurmQueue::kQueueAge;
    if (!asked_ || now - *asked_ >= age) {
      asked_ = now;
      ask();
    }
    return is_queued_;
  }

  /// Prints which rank ended first. Returns the program's exit code.
  ///
  /// Throws: Error(kEnvironment) if neither the run's folder nor Slurm says how the job ended.
  int end() const {
    const auto end = run_end(run_);
    if (!end && shown_ != "finished") {
      throw Error(ErrorKind::kEnvironment,
                  "job " + run_.record.job + " is not in the queue any more, and nothing says how it ended",
                  "its script was most likely killed; `lockstep report` shows how far it came");
    }
    if (!end || end->code == 0) return 0;
    if (const auto first = rank_at_fault(run_, *end)) context_.log.info(to_text(*first));
    return end->code;
  }

 private:
  std::size_t count_ends() const { return read_exits(run_.path).jobs.size(); }

  void ask() {
    if (is_ending_) view_.forget();
    run_.record = job_record(run_.path).value_or(run_.record);
    if (!view_.ask(last_news(run_))) return;
    const auto& queue = view_.jobs();
    const auto found = queue.find(run_.record.job);
    is_queued_ = found != queue.end();
    if (is_queued_)
      is_ending_ = found->second.state != "PENDING" && (is_ending_ || found->second.state == "COMPLETING");
    if (!is_queued_) learn_ends({&run_, 1}, queue, context_.env);
    const auto state = state_of(run_, queue);
    if (state != shown_) context_.log.info("job " + run_.record.job + ": " + state);
    shown_ = state;
  }

  RunJob run_;
  const Context& context_;
  QueuePoll view_;
  std::size_t ends_;
  std::optional<std::chrono::steady_clock::time_point> asked_;
  std::string shown_;
  bool is_queued_ = true;
  bool is_ending_ = false;
};

void follow(const std::string& word, Context& context) {
  const auto places = run_places(context.env);
  auto run = word.empty() ? latest_job(places) : run_job(word, places);
  Tail log(run.path / "logs" / "job.log");
  FollowedJob job(std::move(run), context);
  while (true) {
    const bool is_queued = job.look();
    if (log.print()) continue;
    if (!is_queued) break;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  context.exit_code = job.end();
}

}  // namespace

void add_follow(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "follow", "Follow a submitted run: its state in the queue, then its log. Exits with the program's exit code");
  auto run = std::make_shared<std::string>();
  command->add_option("RUN", *run, "The run: its folder, its name or its Slurm job id (default: the latest run)");
  command->callback([run, &context] { follow(*run, context); });
}

}  // namespace lockstep::cli
