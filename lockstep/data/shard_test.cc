// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/shard.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "tests/support/source_root.h"

namespace lockstep {
namespace {

TEST(Shard, PartsAreThoseOfThePythonReference) {
  const auto golden = lockstep::testing::source_root() / "tests/golden/epoch_order.json";
  const auto parts = nlohmann::json::parse(text_of_file(golden)).at("parts");
  ASSERT_GE(parts.size(), 10U);
  for (const auto& row : parts) {
    const IndexRange whole = global_batch_places(row.at("size"), row.at("batch"), row.at("global_batch"));
    const int world = row.at("world");
    for (int rank = 0; rank < world; ++rank) {
      const IndexRange part = part_of(whole, {rank, world});
      EXPECT_EQ(part.begin, row.at("begins").at(rank).get<std::int64_t>()) << row;
      EXPECT_EQ(part.end, row.at("ends").at(rank).get<std::int64_t>()) << row;
    }
  }
}

TEST(Shard, PartsCoverEveryPlaceOnceAndDifferByAtMostOne) {
  for (std::int64_t samples = 0; samples <= 17; ++samples) {
    for (std::int64_t global_batch = 1; global_batch <= 20; ++global_batch) {
      for (int world = 1; world <= 5; ++world) {
        std::int64_t place = 0;
        for (std::int64_t b = 0; b < batches_in_epoch(samples, global_batch); ++b) {
          const IndexRange whole = global_batch_places(samples, b, global_batch);
          for (int rank = 0; rank < world; ++rank) {
            const IndexRange part = part_of(whole, {rank, world});
            EXPECT_EQ(part.begin, place);
            EXPECT_GE(part.size(), whole.size() / world);
            EXPECT_LE(part.size(), (whole.size() + world - 1) / world);
            place = part.end;
          }
        }
        EXPECT_EQ(place, samples);
      }
    }
  }
}

TEST(Shard, AnEpochEndsWithAShortBatchUnlessItIsDropped) {
  EXPECT_EQ(batches_in_epoch(100, 32), 4);
  EXPECT_EQ(batches_in_epoch(100, 32, true), 3);
  EXPECT_EQ(batches_in_epoch(96, 32), 3);
  EXPECT_EQ(batches_in_epoch(0, 32), 0);
  EXPECT_EQ(batches_in_epoch(5, 32), 1);
  EXPECT_EQ(batches_in_epoch(5, 32, true), 0);
  EXPECT_EQ(global_batch_places(100, 3, 32).size(), 4);
}

std::string usage_error(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(Shard, RefusesAShardThatIsNotOneOfTheCount) {
  EXPECT_EQ(usage_error([] { part_of({0, 10}, {4, 4}); }), "shard 4 of 4, want an index from 0 to one below the count");
  EXPECT_NE(usage_error([] { part_of({0, 10}, {-1, 4}); }), "no error");
  EXPECT_NE(usage_error([] { part_of({0, 10}, {0, 0}); }), "no error");
}

TEST(Shard, RefusesABatchWithoutSamples) {
  EXPECT_EQ(usage_error([] { batches_in_epoch(10, 0); }), "global_batch is 0, want 1 or more");
}

}  // namespace
}  // namespace lockstep
