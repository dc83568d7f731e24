// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/rank_answer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using nlohmann::json;

RankSight some_rank() {
  return {.rank = 3,
          .host = "n2",
          .pid = 4711,
          .state = 'S',
          .page = PageSight{.pid = 4711,
                            .phase = Phase::kForward,
                            .step = 12,
                            .first_sample = 768,
                            .samples = 64,
                            .collective = {.number = 57, .what = "all_reduce Float", .elements = 1024}},
          .age_s = 34,
          .limit_s = 10};
}

TEST(RankAnswers, ComeBackAsTheyWere) {
  const auto rank = some_rank();
  const auto back = rank_sight_of(json::parse(object_of(rank).dump()));
  ASSERT_TRUE(back && back->page);
  EXPECT_EQ(describe(*back), describe(rank));
  EXPECT_EQ(back->limit_s, 10);
  EXPECT_EQ(back->page->collective, rank.page->collective);
}

TEST(RankAnswers, OfARankWithoutAPageComeBackToo) {
  auto rank = some_rank();
  rank.page.reset();
  rank.state = 'T';
  const auto back = rank_sight_of(json::parse(object_of(rank).dump()));
  ASSERT_TRUE(back);
  EXPECT_FALSE(back->page);
  EXPECT_TRUE(back->is_stopped());
}

TEST(RankAnswers, ThatLackSomethingAreNone) {
  const auto whole = object_of(some_rank());
  for (const auto& [key, value] : whole.items()) {
    // Of the others a reader does without, or an older `exec` does not write them.
    if (key == "text" || key == "first_sample" || key == "samples") continue;
    if (key == "loading_sample" || key == "noted_s_ago") continue;
    auto part = whole;
    part.erase(key);
    EXPECT_FALSE(rank_sight_of(part)) << key;
    part[key] = json::array({1});
    // If a value has the wrong type, the reader may leave out the page, but must not fail.
    const auto found = rank_sight_of(part);
    EXPECT_TRUE(!found || key == "phase" || key == "collective") << key;
  }
  EXPECT_FALSE(rank_sight_of(json::array()));
  EXPECT_FALSE(rank_sight_of(nullptr));
}

TEST(RankAnswers, KeepTheBucketTheSampleAndTheTime) {
  auto rank = some_rank();
  rank.page->collective.detail = "bucket 3";
  rank.page->loading_sample = 4711;
  rank.page->noted_s_ago = 2.5;
  const auto back = rank_sight_of(json::parse(object_of(rank).dump()));
  ASSERT_TRUE(back && back->page);
  EXPECT_EQ(back->page->collective.detail, "bucket 3");
  EXPECT_EQ(back->page->loading_sample, 4711);
  EXPECT_EQ(back->page->noted_s_ago, 2.5);
}

TEST(RankAnswers, HaveWhatWasSeenFromOutside) {
  auto rank = some_rank();
  const json views = {{std::to_string(rank.rank), {{"stack", {"f", "main"}}, {"stack_note", nullptr}}},
                      {"99", {{"stack", {"g"}}}},
                      {"nccl", "MISMATCH"}};
  const auto answer = answer_of({rank}, std::nullopt, views);
  EXPECT_EQ(answer["ranks"][0]["stack"], json({"f", "main"}));
  EXPECT_EQ(answer["ranks"][0]["rank"], rank.rank);
  EXPECT_EQ(answer["nccl"], "MISMATCH");
  EXPECT_TRUE(answer_of({rank}, std::nullopt, nullptr)["nccl"].is_null());
}

TEST(RankAnswers, NameTheVerdict) {
  const WatchVerdict verdict{.kind = VerdictKind::kLate, .ranks = {3}, .text = "rank 3 is late"};
  const auto answer = answer_of({some_rank()}, verdict, nullptr);
  EXPECT_EQ(answer["verdict"]["kind"], "late");
  EXPECT_EQ(answer["ranks"].size(), 1U);
  EXPECT_TRUE(answer_of({}, std::nullopt, nullptr)["verdict"].is_null());
}

}  // namespace
}  // namespace lockstep
