// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/rank_answer.h"

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using nlohmann::json;

json object_of(const RankSight& rank) {
  json object = {{"rank", rank.rank},         {"host", rank.host},
                 {"pid", rank.pid},           {"state", std::string(1, rank.state)},
                 {"unchanged_s", rank.age_s}, {"limit_s", rank.limit_s},
                 {"text", describe(rank)},    {"phase", nullptr},
                 {"step", nullptr},           {"collective", nullptr}};
  if (!rank.page) return object;
  object["phase"] = name_of(rank.page->phase);
  object["step"] = rank.page->step;
  const auto& newest = rank.page->collective;
  if (newest.number > 0) {
    object["collective"] = {{"number", newest.number}, {"operation", newest.what}, {"elements", newest.elements}};
  }
  return object;
}

}  // namespace

json answer_of(const std::vector<RankSight>& ranks, const std::optional<WatchVerdict>& verdict) {
  auto list = json::array();
  for (const auto& each : ranks) list.push_back(object_of(each));
  json answer = {{"state", "done"}, {"ranks", std::move(list)}, {"verdict", nullptr}};
  if (verdict) {
    answer["verdict"] = {{"kind", name_of(verdict->kind)}, {"ranks", verdict->ranks}, {"text", verdict->text}};
  }
  return answer;
}

}  // namespace lockstep
