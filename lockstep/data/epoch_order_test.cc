// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/epoch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "tests/support/source_root.h"

namespace lockstep {
namespace {

std::vector<std::int64_t> taken(const EpochOrder& order) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(order.size()));
  order.take(0, ids);
  return ids;
}

bool is_permutation_of_all(std::vector<std::int64_t> ids) {
  std::ranges::sort(ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

TEST(EpochOrder, IsThePythonReferencesOrder) {
  const auto golden = lockstep::testing::source_root() / "tests/golden/epoch_order.json";
  const auto orders = nlohmann::json::parse(text_of_file(golden)).at("orders");
  ASSERT_GE(orders.size(), 10U);
  for (const auto& row : orders) {
    const EpochOrder order(row.at("size"), row.at("seed"), row.at("epoch"));
    const auto places = row.at("places").get<std::vector<std::int64_t>>();
    const auto ids = row.at("ids").get<std::vector<std::int64_t>>();
    for (std::size_t i = 0; i < places.size(); ++i) {
      EXPECT_EQ(order[places[i]], ids[i]) << "size " << order.size() << " place " << places[i];
    }
  }
}

TEST(EpochOrder, HoldsEachSampleOnceForEverySizeUpTo300) {
  for (std::int64_t size = 0; size <= 300; ++size) {
    for (const std::uint64_t seed : {0ULL, 1ULL, ~0ULL}) {
      EXPECT_TRUE(is_permutation_of_all(taken(EpochOrder(size, seed, size)))) << size;
    }
  }
}

TEST(EpochOrder, HoldsEachSampleOnceForLargerSizes) {
  for (const std::int64_t size : {1024, 1025, 1437, 4096, 4097, 50'000, 262'144, 300'001}) {
    EXPECT_TRUE(is_permutation_of_all(taken(EpochOrder(size, 3, 1)))) << size;
  }
}

TEST(EpochOrder, GivesTheSameByOneAndByMany) {
  const EpochOrder order(1437, 5, 2);
  std::vector<std::int64_t> part(100);
  order.take(700, part);
  for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(part[static_cast<std::size_t>(i)], order[700 + i]);
}

TEST(EpochOrder, DiffersByEpochAndBySeed) {
  const auto first = taken(EpochOrder(1000, 1, 0));
  for (const auto& other : {taken(EpochOrder(1000, 1, 1)), taken(EpochOrder(1000, 2, 0))}) {
    const auto same = std::inner_product(first.begin(), first.end(), other.begin(), 0, std::plus<>(),
                                         [](std::int64_t a, std::int64_t b) { return a == b ? 1 : 0; });
    EXPECT_LT(same, 10) << "two random permutations share one place on average";
  }
}

TEST(EpochOrder, IsAscendingWithoutShuffling) {
  const EpochOrder order(7, 1, 0, false);
  EXPECT_EQ(taken(order), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(order[4], 4);
}

TEST(EpochOrder, StoresNothingForTenThousandMillionSamples) {
  static_assert(sizeof(EpochOrder) <= 128);
  const std::int64_t size = 10'000'000'000;
  const EpochOrder order(size, 1, 0);
  for (const std::int64_t place : {std::int64_t{0}, size / 2, size - 1}) {
    EXPECT_GE(order[place], 0);
    EXPECT_LT(order[place], size);
  }
  EXPECT_NE(order[0], order[1]);
}

/// Returns the chi-square statistic of n equally likely cells, in standard deviations from its expected value.
double chi_square_deviation(const std::vector<int>& counts) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  const double expected = total / static_cast<double>(counts.size());
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>(counts.size()) - 1;
  return (sum - freedom) / std::sqrt(2 * freedom);
}

TEST(EpochOrder, BringsEachSampleToEachPlaceEquallyOften) {
  constexpr std::int64_t kSize = 50;
  std::vector<int> counts(kSize * kSize);
  for (std::int64_t epoch = 0; epoch < 4000; ++epoch) {
    const auto ids = taken(EpochOrder(kSize, 1, epoch));
    for (std::size_t i = 0; i < ids.size(); ++i) ++counts[i * kSize + static_cast<std::size_t>(ids[i])];
  }
  EXPECT_LT(std::abs(chi_square_deviation(counts)), 5);
}

TEST(EpochOrder, LeavesNeighboursNoRelation) {
  constexpr std::int64_t kSize = 4000;
  constexpr std::int64_t kCells = 20;
  std::vector<int> counts(kCells * kCells);
  for (std::int64_t epoch = 0; epoch < 50; ++epoch) {
    const auto ids = taken(EpochOrder(kSize, 9, epoch));
    for (std::size_t i = 0; i + 1 < ids.size(); i += 2) {
      ++counts[static_cast<std::size_t>(ids[i] * kCells / kSize * kCells + ids[i + 1] * kCells / kSize)];
    }
  }
  EXPECT_LT(std::abs(chi_square_deviation(counts)), 5);
}

TEST(EpochOrder, RefusesANegativeSize) {
  try {
    EpochOrder(-1, 0, 0);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(), "an epoch of -1 samples, want 0 or more");
  }
}

TEST(EpochOrder, AssertsThatThePlaceIsInTheEpoch) {
  EXPECT_THROW(EpochOrder(3, 0, 0)[3], Error);
  EXPECT_THROW(EpochOrder(3, 0, 0)[-1], Error);
}

}  // namespace
}  // namespace lockstep
