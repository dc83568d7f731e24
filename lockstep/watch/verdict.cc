// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/verdict.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

using Sights = std::vector<RankSight>;

std::string seconds(double value) { return fixed(value, 0) + " s"; }

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i) names.push_back(std::to_string(ranks[i]));
  const std::string more = ranks.size() > kShown ? " and " + std::to_string(ranks.size() - kShown) + " more" : "";
  return (ranks.size() == 1 ? "rank " : "ranks ") + joined(names, ", ") + more;
}

std::string collective_text(const Collective& collective) {
  return "collective " + std::to_string(collective.number) + ", " + collective.what + " of " +
         std::to_string(collective.elements) + (collective.elements == 1 ? " element" : " elements") +
         (collective.detail.empty() ? std::string() : " (" + collective.detail + ")");
}

std::string process_text(char state) {
  switch (state) {
    case 'R':
      return "it computes";
    case 'D':
      return "it waits for a disk or a device";
    case 'S':
      return "it sleeps";
    default:
      return std::string("its process is in state ") + state;
  }
}

std::vector<int> others_than(const Sights& ranks, const std::vector<int>& few) {
  std::vector<int> others;
  for (const auto& each : ranks) {
    if (std::ranges::find(few, each.rank) == few.end()) others.push_back(each.rank);
  }
  return others;
}

std::optional<WatchVerdict> stopped(const Sights& ranks, double stopped_for_s) {
  WatchVerdict verdict{.kind = VerdictKind::kStopped};
  std::vector<std::string> texts;
  for (const auto& each : ranks) {
    if (!each.is_stopped() || each.age_s < stopped_for_s) continue;
    verdict.ranks.push_back(each.rank);
    texts.push_back(name_of(each) + " is stopped " + (each.state == 't' ? "by a debugger" : "by a signal") + " for " +
                    seconds(each.age_s) + (each.page ? ", in " + describe(*each.page) : std::string()));
  }
  if (verdict.ranks.empty()) return std::nullopt;
  const auto others = others_than(ranks, verdict.ranks);
  verdict.text =
      joined(texts, "; ") + "; " + ranks_text(others) + (others.size() == 1 ? " waits" : " wait") + " for it";
  return verdict;
}

/// How far a rank is, for comparing ranks: by its number of collectives. A program that notes no collectives is
/// compared by its step and phase.
using Progress = std::tuple<std::uint64_t, std::int64_t, Phase>;

Progress progress_of(const RankSight& rank) {
  const auto begun = rank.page->collective.number;
  return begun > 0 ? Progress{begun, 0, Phase::kStarting} : Progress{0, rank.page->step, rank.page->phase};
}

std::optional<WatchVerdict> late(const Sights& ranks, const Progress& least, const RankSight& furthest) {
  WatchVerdict verdict{.kind = VerdictKind::kLate};
  std::vector<std::string> texts;
  for (const auto& each : ranks) {
    if (progress_of(each) != least || each.age_s < each.limit_s) continue;
    verdict.ranks.push_back(each.rank);
    texts.push_back(name_of(each) + " is in " + describe(*each.page) + " for " + seconds(each.age_s) + ", " +
                    process_text(each.state));
  }
  if (verdict.ranks.empty()) return std::nullopt;
  verdict.text = joined(texts, "; ");
  const auto others = others_than(ranks, verdict.ranks);
  if (others.empty()) return verdict;
  const bool is_one = others.size() == 1;
  const auto& collective = furthest.page->collective;
  verdict.text += "; " + ranks_text(others) +
                  (collective.number > 0 ? (is_one ? " waits in " : " wait in ") + collective_text(collective)
                                         : (is_one ? " is in " : " are in ") + describe(*furthest.page));
  return verdict;
}

std::optional<WatchVerdict> apart(const Sights& ranks, double still_for_s) {
  const auto& first = ranks.front();
  const auto other =
      std::ranges::find_if(ranks, [&](const auto& each) { return each.page->collective != first.page->collective; });
  if (other == ranks.end() || std::min(first.age_s, other->age_s) < still_for_s) return std::nullopt;
  // The fewest are named as those that differ.
  std::vector<int> like_first;
  for (const auto& each : ranks) {
    if (each.page->collective == first.page->collective) like_first.push_back(each.rank);
  }
  const auto rest = others_than(ranks, like_first);
  const bool first_is_odd = like_first.size() < rest.size();
  WatchVerdict verdict{.kind = VerdictKind::kApart, .ranks = first_is_odd ? like_first : rest};
  const auto& odd = first_is_odd ? first : *other;
  const auto& usual = first_is_odd ? *other : first;
  verdict.text = name_of(odd) + " is in " + collective_text(odd.page->collective) + ", in " + describe(*odd.page) +
                 "; " + ranks_text(others_than(ranks, verdict.ranks)) + " in " +
                 collective_text(usual.page->collective) + ", in " + describe(*usual.page) +
                 ": one of them has left a collective out, or made one more";
  return verdict;
}

std::optional<WatchVerdict> all_wait(const Sights& ranks) {
  const bool all_are_late =
      std::ranges::all_of(ranks, [](const auto& each) { return each.age_s >= each.limit_s && each.state != 'R'; });
  if (!all_are_late) return std::nullopt;
  const auto& first = ranks.front();
  WatchVerdict verdict{.kind = VerdictKind::kAllWait};
  for (const auto& each : ranks) verdict.ranks.push_back(each.rank);
  verdict.text = "all ranks have waited for " + seconds(first.age_s) + " in " + describe(*first.page) +
                 ", in the same " + collective_text(first.page->collective) +
                 ": no rank is behind, so look at the network between them";
  return verdict;
}

}  // namespace

std::string_view name_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kStopped:
      return "stopped";
    case VerdictKind::kLate:
      return "late";
    case VerdictKind::kApart:
      return "apart";
    case VerdictKind::kAllWait:
      return "all_wait";
    case VerdictKind::kSlow:
      return "slow";
  }
  return {};
}

std::string name_of(const RankSight& rank) {
  return "rank " + std::to_string(rank.rank) + " (process " + std::to_string(rank.pid) +
         (rank.host.empty() ? std::string() : " on " + rank.host) + ")";
}

std::string describe(const PageSight& page) {
  auto text = std::string(name_of(page.phase)) + " of step " + std::to_string(page.step);
  if (page.phase == Phase::kForward && page.first_sample >= 0) {
    text +=
        ", sample " + std::to_string(page.first_sample) + " and the " + std::to_string(page.samples - 1) + " with it";
  }
  if (page.loading_sample >= 0) text += ", sample " + std::to_string(page.loading_sample) + " is not there yet";
  return text;
}

std::optional<WatchVerdict> ranks_apart(const Sights& ranks) {
  const bool all_tell = std::ranges::all_of(
      ranks, [](const auto& each) { return each.page.has_value() && each.page->collective.number > 0; });
  if (ranks.empty() || !all_tell) return std::nullopt;
  const auto number = ranks.front().page->collective.number;
  const bool same_number =
      std::ranges::all_of(ranks, [&](const auto& each) { return each.page->collective.number == number; });
  return same_number ? apart(ranks, 0) : std::nullopt;
}

std::optional<WatchVerdict> verdict_on(const Sights& ranks, double stopped_for_s) {
  if (std::ranges::all_of(ranks, &RankSight::is_stopped)) return std::nullopt;
  if (auto verdict = stopped(ranks, stopped_for_s)) return verdict;
  // A rank that waits for the stopped one may have begun to wait earlier, and in an earlier collective.
  if (std::ranges::any_of(ranks, &RankSight::is_stopped)) return std::nullopt;
  const bool all_tell = std::ranges::all_of(ranks, [](const auto& each) { return each.page.has_value(); });
  if (ranks.empty() || !all_tell) return std::nullopt;
  const auto [least, most] = std::ranges::minmax_element(ranks, {}, progress_of);
  const bool are_together = progress_of(*least) == progress_of(*most);
  if (!are_together || most->page->collective.number == 0 || ranks.size() == 1) {
    return late(ranks, progress_of(*least), *most);
  }
  if (auto verdict = apart(ranks, stopped_for_s)) return verdict;
  return all_wait(ranks);
}

std::string describe(const RankSight& rank) {
  auto text = name_of(rank) + ": ";
  if (!rank.page) return text + (rank.is_stopped() ? "stopped" : process_text(rank.state));
  if (rank.is_stopped()) text += "stopped in ";
  text += describe(*rank.page) + " for " + seconds(rank.age_s);
  if (!rank.is_stopped() && rank.state != '?') text += ", " + process_text(rank.state);
  if (rank.page->collective.number > 0) text += "; newest " + collective_text(rank.page->collective);
  return text;
}

}  // namespace lockstep
