// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/group.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "lockstep/watch/page.h"
#include "lockstep/watch/page_reader.h"
#include "tests/support/lost_rank.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::one_rank;

RANKS_TEST(Group, AddsUpATensorOverAllRanks, 3) {
  auto tensor = at::full({2, 2}, group.rank() + 1.0, at::kDouble);
  group.all_reduce_sum(tensor);
  EXPECT_TRUE(at::equal(tensor, at::full({2, 2}, 6.0, at::kDouble)));
  auto whole = at::full({1}, std::int64_t{1} << 62, at::kLong);
  group.all_reduce_sum(whole);
  EXPECT_EQ(whole.item<std::int64_t>(), static_cast<std::int64_t>(3ULL << 62U)) << "sums wrap around, as digests need";
}

RANKS_TEST(Group, GivesEveryRankTheTensorOfTheRootAskedFor, 3) {
  for (int root = 0; root < 3; ++root) {
    auto tensor = at::full({4}, group.rank(), at::kFloat);
    group.broadcast(tensor, root);
    EXPECT_TRUE(at::equal(tensor, at::full({4}, root, at::kFloat)));
  }
}

RANKS_TEST(Group, GathersEachRanksNumberByRank, 4) {
  const std::int64_t large = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(group.all_gather(large + group.rank()),
            (std::vector<std::int64_t>{large, large + 1, large + 2, large + 3}));
}

RANKS_TEST(Group, SharesTextOfAnyLength, 2) {
  EXPECT_EQ(group.broadcast_text(group.is_main() ? "" : "ignored"), "");
  EXPECT_EQ(group.broadcast_text(group.is_main() ? "ignored" : "from one", 1), "from one");
  std::string large(3'000'000, 'x');
  large[1'000'000] = '\0';
  EXPECT_EQ(group.broadcast_text(group.is_main() ? large : "short"), large);
}

RANKS_TEST(Group, ABarrierIsPassedByAll, 3) {
  for (int i = 0; i < 20; ++i) group.barrier();
}

RANKS_TEST(OnRankZero, RunsThereAlone, 2) {
  int calls = 0;
  on_rank_zero(group, [&] { ++calls; });
  EXPECT_EQ(calls, group.is_main() ? 1 : 0);
}

RANKS_TEST(OnRankZero, ItsErrorReachesEveryRankWithItsKind, 3) {
  for (const auto kind : {ErrorKind::kUsage, ErrorKind::kRecipe, ErrorKind::kEnvironment, ErrorKind::kData,
                          ErrorKind::kIo, ErrorKind::kPeer, ErrorKind::kBug}) {
    const auto text =
        message_of(kind, [&] { on_rank_zero(group, [&] { throw Error(kind, "'/x' is full", "free some space"); }); });
    EXPECT_EQ(text, "'/x' is full\n  hint: free some space");
  }
  EXPECT_EQ(message_of(ErrorKind::kBug, [&] { on_rank_zero(group, [] { throw std::runtime_error("odd"); }); }), "odd");
  group.barrier();
}

// Every rank ended with the code of rank 0's error at the same moment, and the launcher named the one that it found
// first.
RANKS_TEST(OnRankZero, ThePagesOfTheOthersSayWhoseErrorItIs, 3) {
  message_of(ErrorKind::kIo, [&] { on_rank_zero(group, [] { throw Error(ErrorKind::kIo, "full"); }); });
  const auto& page = Page::own();
  EXPECT_EQ(sight_of(page.layout())->told_by, group.is_main() ? std::nullopt : std::optional(0));
  Page::own().begin_batch(1, {});
  EXPECT_EQ(sight_of(page.layout())->told_by, std::nullopt) << "the program went on";
  message_of(ErrorKind::kIo, [&] {
    on_every_rank(group, [&] {
      if (group.rank() > 0) throw Error(ErrorKind::kIo, "full");
    });
  });
  EXPECT_EQ(sight_of(page.layout())->told_by, group.is_main() ? std::optional(1) : std::nullopt);
  group.barrier();
}

RANKS_TEST(OnRankZero, ItsErrorKeepsFactAndHintApart, 2) {
  try {
    on_rank_zero(group, [] { throw Error(ErrorKind::kIo, "'/x' is full", "free some space"); });
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fact(), "'/x' is full");
    EXPECT_EQ(error.hint(), "free some space");
  }
  group.barrier();
}

RANKS_TEST(OnEveryRank, OnesErrorReachesAllAndEachKeepsItsOwn, 4) {
  int calls = 0;
  on_every_rank(group, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
  const auto text = message_of(ErrorKind::kEnvironment, [&] {
    on_every_rank(group, [&] {
      if (group.rank() % 2 == 1) {
        throw Error(ErrorKind::kEnvironment, "device " + std::to_string(group.rank()) + " is busy", "end who has it");
      }
    });
  });
  const std::string whose = group.rank() % 2 == 1 ? "device " + std::to_string(group.rank()) : "rank 1: device 1";
  EXPECT_EQ(text, whose + " is busy\n  hint: end who has it");
  group.barrier();
}

RANKS_TEST(RequireSameText, IsSilentWhereAllAgree, 3) {
  require_same_text(group, ErrorKind::kRecipe, "the recipe", "a = 1\nb = 2", "fix it");
  require_same_text(group, ErrorKind::kRecipe, "the recipe", "", "fix it");
}

RANKS_TEST(RequireSameText, NamesTheRanksAndTheFirstLineThatDiffers, 4) {
  const std::string own = group.rank() == 1 || group.rank() == 3 ? "a = 1\nb = 5\nc = 9" : "a = 1\nb = 2\nc = 3";
  const auto text = message_of(ErrorKind::kRecipe,
                               [&] { require_same_text(group, ErrorKind::kRecipe, "the recipe", own, "use one"); });
  EXPECT_EQ(text,
            "the recipe differs between ranks: rank 0 has 'b = 2', rank 1 has 'b = 5' (different from rank 0: 1, 3)\n"
            "  hint: use one");
}

RANKS_TEST(RequireSameText, SaysNothingForALineThatIsMissing, 2) {
  const std::string own = group.is_main() ? "a = 1" : "a = 1\nb = 2";
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { require_same_text(group, ErrorKind::kUsage, "it", own, "x"); }),
             "rank 0 has nothing, rank 1 has 'b = 2'");
}

TEST(Group, OfOneRankNeedsNoPeer) {
  auto group = one_rank();
  auto tensor = at::ones({2});
  group.all_reduce_sum(tensor);
  group.broadcast(tensor);
  group.barrier();
  EXPECT_TRUE(at::equal(tensor, at::ones({2})));
  EXPECT_EQ(group.all_gather(7), std::vector<std::int64_t>{7});
  EXPECT_EQ(group.broadcast_text("text"), "text");
  EXPECT_TRUE(group.is_main());
  require_same_text(group, ErrorKind::kUsage, "it", "text", "x");
  EXPECT_HAS(message_of(ErrorKind::kIo, [&] { on_rank_zero(group, [] { throw Error(ErrorKind::kIo, "full"); }); }),
             "full");
}

TEST(Group, ARankThatIsKilledIsAPeerErrorOnTheOthers) {
  if (!testing::is_rank()) {
    testing::expect_of_ranks({.world = 3, .statuses = {{2, 128 + SIGKILL}}});
    return;
  }
  testing::begin_rank();
  auto group = join();
  auto tensor = at::ones({1'000'000});
  group.all_reduce_sum(tensor);
  if (group.rank() == 2) ::raise(SIGKILL);
  const auto text = message_of(ErrorKind::kPeer, [&] {
    for (int i = 0; i < 1000; ++i) group.all_reduce_sum(tensor);
  });
  EXPECT_TRUE(testing::names_lost(text, "added up a tensor", 2)) << text;
  EXPECT_HAS(text, "hint: fix what that rank reports, then start again with --resume auto");
}

}  // namespace
}  // namespace lockstep
