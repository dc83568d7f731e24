// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/watch_record.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/map_each.h"
#include "lockstep/base/system_files.h"
#include "lockstep/observe/rank_answer.h"

namespace lockstep {

WatchRecord::WatchRecord(std::filesystem::path run_dir, const Log& log)
    : run_dir_(std::move(run_dir)), log_(log), host_(host_name()), watch_(host_) {}

void WatchRecord::announce() {
  if (run_dir_.empty()) return;
  try {
    const auto self = ProcessIdentity::of_process(Environment::of_process());
    if (living_watch_parent(run_dir_, self)) {
      run_dir_.clear();
    } else {
      parent_.emplace(run_dir_, self);
    }
  } catch (const Error& error) {
    log_.warning("`lockstep why` may not find this run: " + std::string(error.fact()));
  }
}

void WatchRecord::look(const std::vector<SeenRank>& ranks) {
  const auto watched =
      map_each(ranks, [](const SeenRank& each) { return watched_rank(each.rank, each.pid, each.layout); });
  watch_.look(watched, Clock::now());
  if (run_dir_.empty() && !watched.empty() && watched.front().page) run_dir_ = watched.front().page->run_dir;
  if (const auto news = watch_.news()) {
    tell();  // What is new must not overtake what was.
    news_ = news_of(*news, watch_.verdict());
  }
  if (!inspection_ && !run_dir_.empty()) asked_ = open_requests(run_dir_, {"why"});
  if (!inspection_ && (news_ || !asked_.empty())) begin_to_look(ranks);
  if (!inspection_) return;
  const auto views = inspection_->result();
  if (!views) return;
  inspection_.reset();
  if (news_) news_->views = *views;
  tell();
  answer_requests(*views);
}

void WatchRecord::begin_to_look(const std::vector<SeenRank>& ranks) {
  constexpr std::size_t kMost = 8;
  std::vector<SeenRank> chosen;
  for (const auto& each : ranks) {
    const bool is_at_fault = news_ && std::ranges::find(news_->ranks, each.rank) != news_->ranks.end();
    if (!asked_.empty() || (is_at_fault && chosen.size() < kMost)) chosen.push_back(each);
  }
  inspection_.emplace(chosen, Environment::of_process());
}

void WatchRecord::tell() {
  if (!news_) return;
  tell_news(*news_, run_dir_, log_);
  news_.reset();
}

std::optional<WatchVerdict> WatchRecord::verdict() const { return news_ ? std::nullopt : watch_.verdict(); }

void WatchRecord::answer_requests(const nlohmann::json& views) {
  for (const auto& request : std::exchange(asked_, {})) {
    try {
      answer_request(run_dir_, request, answer_of(watch_.ranks(), watch_.verdict(), views));
    } catch (const Error& error) {
      log_.warning("a request is not answered: " + std::string(error.fact()));
    }
  }
}

void WatchRecord::tell_end(const SeenRank& rank, const std::string& how) {
  const auto page = rank.layout != nullptr ? sight_of(*rank.layout) : std::nullopt;
  const RankSight sight{.rank = rank.rank, .host = host_, .pid = page ? page->pid : rank.pid, .page = page};
  if (run_dir_.empty() && page) run_dir_ = page->run_dir;  // It may end before the first look.
  const auto text = name_of(sight) + " " + how + (page ? ", in " + describe(*page) : std::string());
  write_news({.kind = "ended", .ranks = {rank.rank}, .text = text, .views = nullptr}, run_dir_, log_);
}

std::optional<WatchVerdict> WatchRecord::tell_ranks_apart(const std::vector<SeenRank>& ranks) {
  std::vector<RankSight> sights;
  for (const auto& each : ranks) {
    const auto page = each.layout != nullptr ? sight_of(*each.layout) : std::nullopt;
    sights.push_back({.rank = each.rank, .host = host_, .pid = page ? page->pid : each.pid, .page = page});
  }
  if (run_dir_.empty() && !sights.empty() && sights.front().page) run_dir_ = sights.front().page->run_dir;
  auto apart = ranks_apart(sights);
  if (apart) tell_news(news_of(apart->text, apart), run_dir_, log_);
  return apart;
}

}  // namespace lockstep
