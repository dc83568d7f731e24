// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/task/task_watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/system_files.h"
#include "lockstep/base/text_format.h"
#include "lockstep/observe/rank_answer.h"
#include "lockstep/observe/requests.h"
#include "lockstep/observe/watch_journal.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr double kStillSeconds = 5;  ///< A task that has not changed for so long is reported.
constexpr auto kTellEvery = 5s;      ///< Less often if there are many tasks, see tell_every().
constexpr auto kPatience = 15s;  ///< Wait for the other parents' answers. Each looks for questions at least so often.
constexpr auto kSkew = 2s;       ///< Difference between the clocks of two nodes.
constexpr int kOftenUpTo = 64;   ///< Number of tasks up to which each looks every 2 s.

/// Returns the time between two reports of one task. Many tasks report less often, to spare the file system. The first
/// report comes at once.
std::chrono::seconds tell_every(int world) {
  constexpr int kEachSecond = 200;
  return std::max<std::chrono::seconds>(kTellEvery, std::chrono::seconds(world / kEachSecond));
}

/// Returns the time between two verdicts of rank 0, which reads each task's report for one.
std::chrono::seconds judge_every(int world) {
  constexpr int kEachSecond = 1000;
  return std::max<std::chrono::seconds>(1s, std::chrono::seconds(world / kEachSecond));
}

}  // namespace

TaskWatch::TaskWatch(const Placement& at, const std::string& node, fs::path run_dir, const Log& log)
    : rank_(at.rank),
      world_(at.world),
      run_dir_(std::move(run_dir)),
      log_(log),
      watch_(node, at.world == 1),
      reports_(run_dir_) {
  if (rank_ != 0) return;
  try {
    parent_.emplace(run_dir_, ProcessIdentity::of_process(Environment::of_process()));
  } catch (const Error& error) {
    log_.warning("`lockstep why` may not find this run: " + std::string(error.fact()));
  }
}

Environment TaskWatch::with_page(const Environment& env) const {
  auto all = env.all();
  all[kPageVariable] = page_.give();
  return Environment(std::move(all));
}

std::string TaskWatch::doing() const {
  const auto page = page_.sight();
  return page ? describe(*page) : std::string();
}

std::optional<int> TaskWatch::told_by() const {
  const auto page = page_.sight();
  return page ? page->told_by : std::nullopt;
}

void TaskWatch::look(pid_t task) {
  const auto now = std::chrono::system_clock::now();
  const auto own = look_at_own(task);
  // A launcher of ranks, or a program that writes no page, can only be reported by the state of its process.
  const bool stands_still = own.age_s >= kStillSeconds && (own.page || own.is_stopped());
  if (!stands_still && !must_tell_ && !asked_) view_ = nullptr;
  try {
    if (rank_ == 0) look_for_requests(now, task);
    must_tell_ = (rank_ != 0 && is_asked(now)) || must_tell_;
    if (must_tell_ || (stands_still && view_.is_null())) begin_to_look(task);
    const bool has_seen = take_view();
    const bool tells = stands_still && (!told_at_ || now - *told_at_ >= tell_every(world_));
    if (tells || (has_seen && (must_tell_ || stands_still))) tell_of(own, now);
    if (has_seen) must_tell_ = false;
    if (told_at_ && !stands_still && now - *told_at_ >= kTellEvery) {
      reports_.take_back(rank_);
      told_at_.reset();
    }
    if (rank_ == 0) judge(own, now);
  } catch (const Error& error) {
    log_.warning("the watch of rank " + std::to_string(rank_) + " misses a look: " + std::string(error.fact()));
  }
}

void TaskWatch::begin_to_look(pid_t task) {
  if (inspection_) return;
  view_ = nlohmann::json::object();
  inspection_.emplace(std::vector<SeenRank>{{.rank = rank_, .pid = training_process(task), .layout = &page_.layout()}},
                      Environment::of_process());
}

bool TaskWatch::take_view() {
  const auto seen = inspection_ ? inspection_->result() : std::nullopt;
  if (!seen) return false;
  inspection_.reset();
  view_ = seen->value(std::to_string(rank_), nlohmann::json::object());
  return true;
}

pid_t TaskWatch::training_process(pid_t task) const {
  const auto page = page_.sight();
  return page && page->pid > 0 ? page->pid : task;
}

RankSight TaskWatch::look_at_own(pid_t task) {
  watch_.look({watched_rank(rank_, task, &page_.layout())}, Clock::now());
  return watch_.ranks().front();
}

void TaskWatch::tell_of(const RankSight& own, Time now) {
  reports_.tell(own, view_, now);
  told_at_ = now;
}

bool TaskWatch::is_asked(Time now) {
  if (now < next_check_) return false;
  next_check_ = now + std::max<std::chrono::seconds>(2s, std::chrono::seconds(2 * world_ / kOftenUpTo));
  std::error_code error;
  const auto asked = fs::last_write_time(reports_.folder() / "asked", error);
  if (error || (seen_asked_ && *seen_asked_ == asked)) return false;
  const bool is_first = !std::exchange(seen_asked_, asked);
  // A file from before this start belongs to an earlier start.
  return !is_first || fs::file_time_type::clock::now() - asked < kPatience;
}

void TaskWatch::look_for_requests(Time now, pid_t task) {
  if (asked_) return;
  if (open_requests(run_dir_, {"why"}).empty()) return;
  make_folder(reports_.folder());
  write_whole(reports_.folder() / "asked", "", false);
  asked_ = now;
  begin_to_look(task);
}

void TaskWatch::judge(const RankSight& own, Time now) {
  if (asked_) {
    const auto ranks = told(own, *asked_ - kSkew);
    const bool are_seen = std::ranges::all_of(views_, [](const auto& view) { return view.is_object(); });
    if ((std::ssize(ranks) == world_ && !inspection_ && are_seen) || now - *asked_ >= kPatience) {
      answer(ranks);
      asked_.reset();
    }
  }
  const bool stands_still = own.age_s >= kStillSeconds;
  if (stands_still && now < next_judgement_) return;
  next_judgement_ = now + judge_every(world_) - 500ms;
  const auto ranks = stands_still ? told(own, now - 3 * tell_every(world_)) : std::vector<RankSight>{};
  // The verdict waits until all tasks have reported. A rank that has not reported yet could not be compared.
  const auto verdict = std::ssize(ranks) == world_ ? verdict_on(ranks) : std::nullopt;
  if (const auto news = news_.of(verdict)) tell_news(with_views(news_of(*news, verdict)), run_dir_, log_);
}

WatchNews TaskWatch::with_views(WatchNews news) const {
  news.views = nlohmann::json::object();
  for (const auto rank : news.ranks) {
    const auto view = views_.find(std::to_string(rank));
    if (view != views_.end()) news.views[std::to_string(rank)] = *view;
  }
  return news;
}

std::vector<RankSight> TaskWatch::told(const RankSight& own, Time since) {
  std::vector<RankSight> ranks = {own};
  views_ = nlohmann::json::object();
  if (view_.is_object()) views_[std::to_string(rank_)] = view_;
  for (auto& each : reports_.since(since, std::chrono::system_clock::now())) {
    if (each.sight.rank == rank_) continue;
    views_[std::to_string(each.sight.rank)] = std::move(each.view);
    ranks.push_back(std::move(each.sight));
  }
  std::ranges::sort(ranks, {}, &RankSight::rank);
  return ranks;
}

void TaskWatch::answer(const std::vector<RankSight>& ranks) {
  const auto verdict = std::ssize(ranks) == world_ ? verdict_on(ranks) : std::nullopt;
  for (const auto& request : open_requests(run_dir_, {"why"})) {
    answer_request(run_dir_, request, answer_of(ranks, verdict, views_));
  }
}

}  // namespace lockstep
