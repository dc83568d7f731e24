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
  const auto number_of = [&](const char* key, auto absent) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number() ? found->get<decltype(absent)>() : absent;
  };
  page.loading_sample = number_of("loading_sample", page.loading_sample);
  page.noted_s_ago = number_of("noted_s_ago", page.noted_s_ago);
  if (const auto& newest = object.at("collective"); newest.is_object()) {
    page.collective = {
        .number = newest.at("number"), .what = newest.at("operation"), .elements = newest.at("elements")};
    if (newest.contains("detail") && newest["detail"].is_string()) page.collective.detail = newest["detail"];
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
  object["loading_sample"] = rank.page->loading_sample < 0 ? json(nullptr) : json(rank.page->loading_sample);
  object["noted_s_ago"] = rank.page->noted_s_ago < 0 ? json(nullptr) : json(rank.page->noted_s_ago);
  const auto& newest = rank.page->collective;
  if (newest.number > 0) {
    object["collective"] = {{"number", newest.number},
                            {"operation", newest.what},
                            {"elements", newest.elements},
                            {"detail", newest.detail.empty() ? json(nullptr) : json(newest.detail)}};
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

json answer_of(const std::vector<RankSight>& ranks, const std::optional<WatchVerdict>& verdict, const json& views) {
  auto list = json::array();
  for (const auto& each : ranks) {
    auto object = object_of(each);
    const auto view = views.is_object() ? views.find(std::to_string(each.rank)) : views.end();
    if (view != views.end() && view->is_object()) object.update(*view);
    list.push_back(std::move(object));
  }
  json answer = {{"state", "done"}, {"ranks", std::move(list)}, {"verdict", nullptr}};
  if (verdict) {
    answer["verdict"] = {{"kind", name_of(verdict->kind)}, {"ranks", verdict->ranks}, {"text", verdict->text}};
  }
  answer["nccl"] = views.is_object() && views.contains("nccl") ? views.at("nccl") : json(nullptr);
  return answer;
}

}  // namespace lockstep
