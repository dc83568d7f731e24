// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/rank_answer.h"

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using nlohmann::json;

std::optional<Phase> phase_named(const std::string& name) {
  for (std::uint32_t i = 0; i < kPhases; ++i) {
    if (name_of(static_cast<Phase>(i)) == name) return static_cast<Phase>(i);
  }
  return std::nullopt;
}

std::optional<PageSight> page_of(const json& object) {
  if (!object.at("phase").is_string()) return std::nullopt;
  const auto phase = phase_named(object.at("phase"));
  if (!phase) return std::nullopt;
  PageSight page{.pid = object.at("pid"), .phase = *phase, .step = object.at("step")};
  page.first_sample = object.value("first_sample", page.first_sample);
  page.samples = object.value("samples", page.samples);
  if (const auto& newest = object.at("collective"); newest.is_object()) {
    page.collective = {
        .number = newest.at("number"), .what = newest.at("operation"), .elements = newest.at("elements")};
  }
  return page;
}

}  // namespace

json object_of(const RankSight& rank) {
  json object = {{"rank", rank.rank},         {"host", rank.host},
                 {"pid", rank.pid},           {"state", std::string(1, rank.state)},
                 {"unchanged_s", rank.age_s}, {"limit_s", rank.limit_s},
                 {"text", describe(rank)},    {"phase", nullptr},
                 {"step", nullptr},           {"collective", nullptr}};
  if (!rank.page) return object;
  object["phase"] = name_of(rank.page->phase);
  object["step"] = rank.page->step;
  object["first_sample"] = rank.page->first_sample;
  object["samples"] = rank.page->samples;
  const auto& newest = rank.page->collective;
  if (newest.number > 0) {
    object["collective"] = {{"number", newest.number}, {"operation", newest.what}, {"elements", newest.elements}};
  }
  return object;
}

std::optional<RankSight> rank_sight_of(const json& object) {
  try {
    const std::string state = object.at("state");
    return RankSight{.rank = object.at("rank"),
                     .host = object.at("host"),
                     .pid = object.at("pid"),
                     .state = state.empty() ? '?' : state.front(),
                     .page = page_of(object),
                     .age_s = object.at("unchanged_s"),
                     .limit_s = object.at("limit_s")};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

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
