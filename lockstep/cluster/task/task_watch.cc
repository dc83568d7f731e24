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

constexpr double kStill_s = 5;  ///< A task that has not changed for so long is told of.
constexpr auto kTellEvery = 5s;
constexpr auto kPatience = 10s;  ///< For the others' answers. Each looks at least so often.
constexpr auto kSkew = 2s;       ///< Of the clocks of two nodes.
constexpr int kOftenUpTo = 64;   ///< Tasks that look every 2 s.

double seconds_of(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

TaskWatch::TaskWatch(const Placement& at, const std::string& node, fs::path run_dir, const Log& log)
    : rank_(at.rank), world_(at.world), run_dir_(std::move(run_dir)), log_(log), watch_(node, at.world == 1) {}

Environment TaskWatch::with_page(const Environment& env) const {
  auto all = env.all();
  all[kPageVariable] = page_.give();
  return Environment(std::move(all));
}

void TaskWatch::look(pid_t task) {
  const auto now = std::chrono::system_clock::now();
  const auto own = look_at_own(task);
  // A launcher of ranks, or a program that writes no page, can only be reported by the state of its process.
  const bool stands_still = own.age_s >= kStill_s && (own.page || own.is_stopped());
  try {
    if (rank_ == 0) look_for_requests(now);
    const bool tells = stands_still && (!told_at_ || now - *told_at_ >= kTellEvery);
    if (tells || is_asked(now)) tell_of(own, now);
    if (told_at_ && !stands_still && now - *told_at_ >= kTellEvery) {
      std::error_code ignored;
      fs::remove(folder() / (rank_name(rank_) + ".json"), ignored);
      told_at_.reset();
    }
    if (rank_ == 0) judge(own, now);
  } catch (const Error& error) {
    log_.warning("the watch of rank " + std::to_string(rank_) + " misses a look: " + std::string(error.fact()));
  }
}

RankSight TaskWatch::look_at_own(pid_t task) {
  const auto page = page_.sight();
  // The training process may be a child of the task.
  const pid_t pid = page && page->pid > 0 ? page->pid : task;
  watch_.look({{.rank = rank_, .pid = pid, .page = page, .state = process_state(pid)}}, Clock::now());
  return watch_.ranks().front();
}

void TaskWatch::tell_of(const RankSight& own, Time now) {
  make_folder(folder());
  auto object = object_of(own);
  object["time"] = seconds_of(now);
  write_whole(folder() / (rank_name(rank_) + ".json"), object.dump() + "\n", false);
  told_at_ = now;
}

bool TaskWatch::is_asked(Time now) {
  if (now < next_check_) return false;
  next_check_ = now + std::max<std::chrono::seconds>(2s, std::chrono::seconds(2 * world_ / kOftenUpTo));
  std::error_code error;
  const auto asked = fs::last_write_time(folder() / "asked", error);
  if (error || (seen_asked_ && *seen_asked_ == asked)) return false;
  const bool is_first = !std::exchange(seen_asked_, asked);
  // A file from before this start belongs to an earlier start.
  return !is_first || fs::file_time_type::clock::now() - asked < kPatience;
}

void TaskWatch::look_for_requests(Time now) {
  if (asked_) return;
  if (open_requests(run_dir_, {"why"}).empty()) return;
  make_folder(folder());
  write_whole(folder() / "asked", "", false);
  asked_ = now;
}

void TaskWatch::judge(const RankSight& own, Time now) {
  if (asked_) {
    const auto ranks = told(own, *asked_ - kSkew);
    if (std::ssize(ranks) == world_ || now - *asked_ >= kPatience) {
      answer(ranks);
      asked_.reset();
    }
  }
  const bool stands_still = own.age_s >= kStill_s;
  const auto ranks = stands_still ? told(own, now - 3 * kTellEvery) : std::vector<RankSight>{};
  // The verdict waits until all tasks have reported. Otherwise a rank that has not reported yet could not be compared.
  const auto verdict = std::ssize(ranks) == world_ ? verdict_on(ranks) : std::nullopt;
  if (const auto news = news_.of(verdict)) tell_news(*news, verdict, run_dir_, log_);
}

std::vector<RankSight> TaskWatch::told(const RankSight& own, Time since) const {
  std::vector<RankSight> ranks = {own};
  for (const auto& name : names_in(folder())) {
    if (!name.ends_with(".json")) continue;
    const auto object = nlohmann::json::parse(text_or_nothing(folder() / name), nullptr, false);
    if (!object.is_object() || object.value("time", 0.0) < seconds_of(since)) continue;
    auto rank = rank_sight_of(object);
    if (rank && rank->rank != rank_) ranks.push_back(*std::move(rank));
  }
  std::ranges::sort(ranks, {}, &RankSight::rank);
  return ranks;
}

void TaskWatch::answer(const std::vector<RankSight>& ranks) {
  const auto verdict = std::ssize(ranks) == world_ ? verdict_on(ranks) : std::nullopt;
  for (const auto& request : open_requests(run_dir_, {"why"})) {
    answer_request(run_dir_, request, answer_of(ranks, verdict));
  }
}

}  // namespace lockstep
