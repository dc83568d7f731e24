// SPDX-License-Identifier: Apache-2.0
#include "lockstep/store/generations.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Op = StoreOperation;
using Answers = std::vector<std::pair<Generations::ClientId, StoreReply>>;

StoreReply done(std::vector<std::string> fields = {}) { return {StoreStatus::kDone, std::move(fields)}; }

const StoreReply kOver{StoreStatus::kOver, {}};

/// The store with one client, number 1.
class StoreGenerations : public ::testing::Test {
 protected:
  std::optional<StoreReply> ask(Op operation, std::vector<std::string> fields, std::uint32_t generation = 1,
                                Generations::ClientId client = 1) {
    return store_.apply(client, {operation, generation, std::move(fields)});
  }

  Generations store_;
};

TEST_F(StoreGenerations, KeepsWhatIsSet) {
  EXPECT_EQ(ask(Op::kSet, {"a", "1", "b", "2"}), done());
  EXPECT_EQ(ask(Op::kGet, {"b", "a"}), done({"2", "1"}));
  EXPECT_EQ(ask(Op::kCheck, {"a", "b"}), done({"1"}));
  EXPECT_EQ(ask(Op::kCheck, {"a", "c"}), done({"0"}));
  EXPECT_EQ(ask(Op::kCount, {}), done({"2"}));
  EXPECT_EQ(ask(Op::kErase, {"a"}), done({"1"}));
  EXPECT_EQ(ask(Op::kErase, {"a"}), done({"0"}));
  EXPECT_EQ(ask(Op::kCount, {}), done({"1"}));
  EXPECT_EQ(ask(Op::kAppend, {"b", "3"}), done());
  EXPECT_EQ(ask(Op::kAppend, {"new", "4"}), done());
  EXPECT_EQ(ask(Op::kGet, {"b", "new"}), done({"23", "4"}));
}

TEST_F(StoreGenerations, AddsNumbersAndRefusesWhatIsNone) {
  EXPECT_EQ(ask(Op::kAdd, {"n", "5"}), done({"5"}));
  EXPECT_EQ(ask(Op::kAdd, {"n", "-7"}), done({"-2"}));
  ask(Op::kSet, {"n", "9223372036854775807", "text", "abc"});
  EXPECT_EQ(ask(Op::kAdd, {"n", "1"})->status, StoreStatus::kRefused);
  EXPECT_EQ(ask(Op::kAdd, {"text", "1"})->status, StoreStatus::kRefused);
  EXPECT_EQ(ask(Op::kAdd, {"n", "one"})->status, StoreStatus::kRefused);
}

TEST_F(StoreGenerations, ComparesAsC10dDoes) {
  EXPECT_EQ(ask(Op::kCompareSet, {"k", "old", "new"}), done({"old"})) << "missing: the expectation comes back";
  EXPECT_EQ(ask(Op::kCheck, {"k"}), done({"0"}));
  EXPECT_EQ(ask(Op::kCompareSet, {"k", "", "first"}), done({"first"}));
  EXPECT_EQ(ask(Op::kCompareSet, {"k", "wrong", "new"}), done({"first"}));
  EXPECT_EQ(ask(Op::kCompareSet, {"k", "first", "new"}), done({"new"}));
}

TEST_F(StoreGenerations, AGetWaitsForTheLastOfItsKeys) {
  EXPECT_EQ(ask(Op::kGet, {"a", "b"}, 1, 7), std::nullopt);
  ask(Op::kSet, {"b", "2"});
  EXPECT_TRUE(store_.take_answers().empty());
  ask(Op::kSet, {"a", "1"});
  EXPECT_EQ(store_.take_answers(), (Answers{{7, done({"1", "2"})}}));
  EXPECT_EQ(store_.waits(), 0U);
}

TEST_F(StoreGenerations, AKeyErasedMeanwhileIsWaitedForAgain) {
  ask(Op::kSet, {"a", "1"});
  EXPECT_EQ(ask(Op::kGet, {"a", "b"}, 1, 7), std::nullopt);
  ask(Op::kErase, {"a"});
  ask(Op::kSet, {"b", "2"});
  EXPECT_TRUE(store_.take_answers().empty());
  ask(Op::kAdd, {"a", "3"});
  EXPECT_EQ(store_.take_answers(), (Answers{{7, done({"3", "2"})}}));
}

TEST_F(StoreGenerations, AllThatWaitForAKeyAreAnswered) {
  for (Generations::ClientId client = 2; client < 102; ++client) EXPECT_FALSE(ask(Op::kWait, {"go"}, 1, client));
  store_.forget(50);
  EXPECT_EQ(store_.waits(), 99U);
  ask(Op::kSet, {"go", ""});
  EXPECT_EQ(store_.take_answers().size(), 99U);
}

TEST_F(StoreGenerations, RaisingTheGenerationEndsItsWaitsAndDeletesItsKeys) {
  ask(Op::kSet, {"old", "1"});
  ask(Op::kSet, {"lasting", "1"}, 0);
  EXPECT_FALSE(ask(Op::kWait, {"never"}, 1, 7));
  EXPECT_FALSE(ask(Op::kWait, {"late"}, 0, 8));
  EXPECT_EQ(ask(Op::kRaise, {}, 2), done({"2"}));
  EXPECT_EQ(store_.take_answers(), (Answers{{7, kOver}}));
  EXPECT_EQ(ask(Op::kCheck, {"old"}, 2), done({"0"}));
  EXPECT_EQ(ask(Op::kCheck, {"lasting"}, 0), done({"1"}));
  EXPECT_EQ(ask(Op::kSet, {"old", "1"}, 1), kOver);
  EXPECT_EQ(ask(Op::kWait, {"x"}, 1), kOver);
  ask(Op::kSet, {"late", "1"}, 0);
  EXPECT_EQ(store_.take_answers(), (Answers{{8, done()}}));
}

TEST_F(StoreGenerations, ManyMayRaiseTheSameGenerationAndOneDoes) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(Op::kRaise, {}, 2), done({"2"}));
  EXPECT_EQ(ask(Op::kRaise, {}, 1), done({"2"}));
  EXPECT_EQ(ask(Op::kRaise, {}, 9), done({"2"}));
  EXPECT_EQ(ask(Op::kGeneration, {}), done({"2"}));
  EXPECT_EQ(ask(Op::kSet, {"a", "1"}, 3)->status, StoreStatus::kRefused) << "has not begun";
}

TEST_F(StoreGenerations, AKeyOfTheWholeRunWakesNobodyInAGeneration) {
  EXPECT_FALSE(ask(Op::kWait, {"k"}, 1, 7));
  ask(Op::kSet, {"k", "1"}, 0);
  EXPECT_TRUE(store_.take_answers().empty());
}

TEST_F(StoreGenerations, AClientThatIsLostEndsTheGeneration) {
  ASSERT_EQ(ask(Op::kOnLoss, {"lost", "1", "who", "7"}, 0, 7), done());
  ASSERT_EQ(ask(Op::kOnLoss, {"lost", "1"}, 0, 8), done());
  EXPECT_FALSE(ask(Op::kWait, {"never"}, 1, 9));
  EXPECT_FALSE(ask(Op::kWait, {"lost"}, 0, 10));
  ASSERT_EQ(ask(Op::kOnLoss, {}, 0, 8), done());
  store_.forget(8);
  EXPECT_TRUE(store_.take_answers().empty()) << "it has withdrawn its wish";
  store_.forget(7);
  EXPECT_EQ(store_.take_answers(), (Answers{{10, done()}, {9, kOver}}));
  EXPECT_EQ(store_.current(), 2U);
  EXPECT_EQ(ask(Op::kGet, {"lost", "who"}, 0), done({"1", "7"}));
  store_.forget(7);
  EXPECT_EQ(store_.current(), 2U) << "only once";
}

TEST_F(StoreGenerations, RefusesWrongNumbersOfFields) {
  EXPECT_EQ(ask(Op::kOnLoss, {"a"}, 0)->status, StoreStatus::kRefused);
  EXPECT_EQ(ask(Op::kSet, {"a"})->status, StoreStatus::kRefused);
  EXPECT_EQ(ask(Op::kSet, {})->status, StoreStatus::kRefused);
  EXPECT_EQ(ask(Op::kAdd, {"a"})->status, StoreStatus::kRefused);
  EXPECT_EQ(ask(Op::kErase, {})->status, StoreStatus::kRefused);
  EXPECT_EQ(ask(Op::kCompareSet, {"a", "b"})->status, StoreStatus::kRefused);
  EXPECT_EQ(ask(Op::kCount, {"a"})->status, StoreStatus::kRefused);
}

TEST_F(StoreGenerations, ValuesThatFillMoreThanOneMessageAreRefused) {
  const std::string large(kMostFrameBytes / 3, 'x');
  ask(Op::kSet, {"a", large});
  EXPECT_EQ(ask(Op::kGet, {"a", "a"})->status, StoreStatus::kDone);
  EXPECT_EQ(ask(Op::kGet, {"a", "a", "a"})->status, StoreStatus::kRefused);
}

}  // namespace
}  // namespace lockstep
