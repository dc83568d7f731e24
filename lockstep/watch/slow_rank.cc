// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/slow_rank.h"

#include <algorithm>

#include "lockstep/base/median.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kLooks = 30;
constexpr double kSlowFrom = 0.75;
constexpr double kSlowUntil = 0.4;
constexpr double kTimesTheOthers = 3;
constexpr double kLongWait = 0.4;
constexpr double kLongLocal = 0.3;

double local_s(const PageSight& page) {
  const auto& spent = *page.spent_s;
  return spent[static_cast<std::size_t>(Phase::kLoading)] + spent[static_cast<std::size_t>(Phase::kForward)];
}

void push(std::deque<bool>& looks, bool is_true) {
  looks.push_back(is_true);
  if (looks.size() > kLooks) looks.pop_front();
}

double share(const std::deque<bool>& looks) {
  return static_cast<double>(std::ranges::count(looks, true)) / static_cast<double>(kLooks);
}

bool is_training(const RankSight& rank) {
  const auto phase = rank.page->phase;
  return phase != Phase::kStarting && phase != Phase::kEnding && phase != Phase::kValidation &&
         phase != Phase::kSaving && !rank.is_stopped();
}

}  // namespace

void SlowRanks::look(const std::vector<RankSight>& ranks, Clock::time_point now) {
  const double seconds = last_ ? seconds_between(*last_, now) : 0;
  last_ = now;
  const bool all_tell =
      ranks.size() > 1 && std::ranges::all_of(ranks, [](const auto& each) { return each.page && each.page->spent_s; });
  if (!all_tell) {
    looks_.clear();
    verdict_.reset();
    return;
  }
  if (measure(ranks, seconds)) judge(ranks);
}

// Returns false if the ranks are not the same as at the last look.
bool SlowRanks::measure(const std::vector<RankSight>& ranks, double seconds) {
  const bool are_same = std::ranges::equal(
      ranks, looks_, [](const auto& a, const auto& b) { return a.rank == b.rank && a.pid == b.pid; });
  if (!are_same) {
    looks_.clear();
    for (const auto& each : ranks) looks_.push_back({.rank = each.rank, .pid = each.pid});
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto& looks = looks_[i];
    const double local = local_s(*ranks[i].page);
    looks.local = (local - looks.local_s) / seconds;
    looks.wait = ranks[i].core_wait_s < 0 ? 0 : (ranks[i].core_wait_s - looks.wait_s) / seconds;
    looks.local_s = local;
    looks.wait_s = std::max(0.0, ranks[i].core_wait_s);
  }
  return are_same && seconds > 0;
}

void SlowRanks::judge(const std::vector<RankSight>& ranks) {
  const bool all_train = std::ranges::all_of(ranks, is_training);
  std::optional<std::size_t> slowest;
  for (std::size_t i = 0; i < looks_.size(); ++i) {
    std::vector<double> locals;
    std::vector<double> waits;
    for (const auto& other : looks_) {
      if (other.rank == looks_[i].rank) continue;
      locals.push_back(other.local);
      waits.push_back(other.wait);
    }
    auto& own = looks_[i];
    const double local = median_of(locals);
    const double wait = median_of(waits);
    const bool lacks_core = own.wait > kLongWait && own.wait > kTimesTheOthers * wait;
    const bool is_long = own.local - local > kLongLocal && own.local > kTimesTheOthers * local;
    push(own.behind, all_train && (lacks_core || is_long));
    push(own.lacks_core, lacks_core);
    const bool was_slow = verdict_ && verdict_->ranks.front() == own.rank;
    const bool is_slow = share(own.behind) >= (was_slow ? kSlowUntil : kSlowFrom);
    if (is_slow && (!slowest || share(own.behind) > share(looks_[*slowest].behind))) slowest = i;
  }
  if (!slowest) return verdict_.reset();
  verdict_ = {
      .kind = VerdictKind::kSlow, .ranks = {ranks[*slowest].rank}, .text = text(ranks[*slowest], looks_[*slowest])};
}

std::string SlowRanks::text(const RankSight& rank, const Looks& looks) {
  auto text =
      name_of(rank) + " is slower than the others for " + std::to_string(kLooks) + " s, in " + describe(*rank.page);
  if (share(looks.lacks_core) > kSlowUntil) {
    return text + ": a thread of it has no core for " + fixed(100 * looks.wait, 0) +
           " % of the time; look for other programs on its cores";
  }
  return text + ": it spends " + fixed(100 * looks.local, 0) + " % of the time in loading and forward";
}

}  // namespace lockstep
