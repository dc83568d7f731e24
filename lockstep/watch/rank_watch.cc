// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/rank_watch.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lockstep/base/system_files.h"
#include "lockstep/base/text.h"

namespace lockstep {

void PhaseHistory::add_long(Phase phase, double seconds) {
  auto& all = longest_.at(static_cast<std::size_t>(phase));
  all.insert(std::ranges::upper_bound(all, seconds), seconds);
  if (all.size() > kMost) all.erase(all.begin());
}

double PhaseHistory::limit_s(Phase phase, std::uint64_t left) const {
  constexpr double kWithoutHistory = 600;
  constexpr double kLeast = 10;
  constexpr std::uint64_t kFewest = 20;
  if (left < kFewest) return kWithoutHistory;
  const auto& all = longest_.at(static_cast<std::size_t>(phase));
  // Returns the index of the 99th percentile in the list of times, which begins with the longest.
  const auto place = static_cast<std::size_t>(left / 100);
  if (all.empty() || place >= all.size()) return kLeast;
  return std::max(kLeast, 5 * all[all.size() - 1 - place]);
}

char process_state(pid_t pid) {
  const auto text = text_or_nothing("/proc/" + std::to_string(pid) + "/stat");
  // The state comes after the program's name, which may itself have brackets and blanks. So look for the last bracket.
  const auto end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? '?' : text[end + 2];
}

std::map<pid_t, double> core_waits(pid_t pid) {
  constexpr std::size_t kMost = 256;  // A look must stay short.
  std::map<pid_t, double> waits;
  std::error_code ended;
  std::filesystem::directory_iterator thread("/proc/" + std::to_string(pid) + "/task", ended);
  for (; !ended && thread != std::filesystem::directory_iterator() && waits.size() < kMost; thread.increment(ended)) {
    const auto id = parsed_int<pid_t>(thread->path().filename().string());
    const auto words = split(text_or_nothing(thread->path() / "schedstat"), ' ');
    const auto waited = words.size() > 1 ? parsed_int<std::uint64_t>(words[1]) : std::nullopt;
    if (id && waited) waits.emplace(*id, 1e-9 * static_cast<double>(*waited));
  }
  return waits;
}

WatchedRank watched_rank(int rank, pid_t pid, const PageLayout* page) {
  const auto sight = page != nullptr ? sight_of(*page) : std::nullopt;
  // A launcher's page may be that of the process below it which trains.
  const auto trains = sight && sight->pid > 0 ? sight->pid : pid;
  return {.rank = rank, .pid = trains, .page = sight, .state = process_state(trains), .core_waits = core_waits(trains)};
}

RankWatch::Followed& RankWatch::followed(const WatchedRank& rank, Clock::time_point now) {
  const auto it = std::ranges::find(followed_, rank.rank, &Followed::rank);
  auto& own = it != followed_.end() ? *it : followed_.emplace_back();
  if (own.pid != rank.pid) own = {.rank = rank.rank, .pid = rank.pid, .state = rank.state, .since = now};
  return own;
}

// Any thread may be the one that holds up the rank: the training's own, or the one that serves its connections. A core
// that is too small for all threads lets several of them wait at the same time, so the longest wait counts.
void RankWatch::add_wait(Followed& own, const WatchedRank& rank) {
  double longest = 0;
  for (const auto& [thread, wait] : rank.core_waits) {
    const auto before = own.waits.find(thread);
    if (before != own.waits.end()) longest = std::max(longest, wait - before->second);
  }
  own.waits = rank.core_waits;
  if (!own.waits.empty()) own.core_wait_s = std::max(0.0, own.core_wait_s) + longest;
}

void RankWatch::follow(const WatchedRank& rank, Clock::time_point now) {
  auto& own = followed(rank, now);
  add_wait(own, rank);
  const auto is_stopped = [](char state) { return state == 'T' || state == 't'; };
  const bool has_changed = rank.page ? rank.page->changes != own.changes : rank.state != own.state;
  if (!has_changed && is_stopped(rank.state) == is_stopped(own.state)) return;
  const double seconds = seconds_between(own.since, now);
  if (rank.page && seconds > 1 && !is_stopped(own.state)) history_.add_long(own.phase, seconds);
  own.since = now;
  own.state = rank.state;
  if (!rank.page) return;
  own.changes = rank.page->changes;
  own.phase = rank.page->phase;
}

std::uint64_t RankWatch::times_left(Phase phase) const {
  std::uint64_t times = 0;
  for (const auto& each : sights_) {
    if (!each.page) continue;
    const auto entered = each.page->entered.at(static_cast<std::size_t>(phase));
    times += entered - (entered > 0 && each.page->phase == phase ? 1 : 0);
  }
  return times;
}

void RankWatch::look(const std::vector<WatchedRank>& ranks, Clock::time_point now) {
  const bool was_away = last_look_ && now - *last_look_ > kGap;
  const bool all_are_stopped =
      sees_all_ && std::ranges::all_of(ranks, [](const auto& each) { return each.state == 'T'; });
  last_look_ = now;
  for (const auto& rank : ranks) follow(rank, now);
  if (was_away || all_are_stopped) {
    for (auto& each : followed_) each.since = now;
  }
  sights_.clear();
  for (const auto& rank : ranks) {
    sights_.push_back({.rank = rank.rank,
                       .host = host_,
                       .pid = rank.pid,
                       .state = rank.state,
                       .page = rank.page,
                       .age_s = seconds_between(followed(rank, now).since, now),
                       .core_wait_s = followed(rank, now).core_wait_s});
  }
  for (auto& each : sights_) {
    if (each.page) each.limit_s = history_.limit_s(each.page->phase, times_left(each.page->phase));
  }
  verdict_ = verdict_on(sights_);
  if (was_away || all_are_stopped) slow_ = SlowRanks();
  slow_.look(sights_, now);
  if (!verdict_) verdict_ = slow_.verdict();
}

std::optional<std::string> VerdictNews::of(const std::optional<WatchVerdict>& verdict) {
  const bool is_told = verdict && told_ && verdict->is_same(*told_);
  if (is_told || (!verdict && !told_)) return std::nullopt;
  const auto before = std::exchange(told_, verdict);
  if (verdict) return verdict->text;
  switch (before->kind) {
    case VerdictKind::kAllWait:
      return "the ranks go on";
    case VerdictKind::kSlow:
      return "no rank is slower than the others any more";
    default:
      return "the ranks go on, none holds up the others any more";
  }
}

}  // namespace lockstep
