// SPDX-License-Identifier: Apache-2.0
#include "lockstep/loader/loader.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/data/epoch_order.h"
#include "lockstep/data/source/synthetic_source.h"

namespace lockstep {
namespace {

constexpr std::int64_t kSamples = 10;

// A source in which sample i is [[i, i + 0.5], [-i, epoch]] with target 100 + i.
class Numbers : public SampleSource {
 public:
  std::int64_t size() const override { return kSamples; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    const auto i = static_cast<float>(key.id);
    const std::array<float, 4> input = {i, i + 0.5F, -i, static_cast<float>(key.epoch)};
    const std::int64_t target = 100 + key.id;
    std::memcpy(to[0], input.data(), sizeof(input));
    std::memcpy(to[1], &target, sizeof(target));
  }
  std::string name_of(std::int64_t id) const override { return "number " + std::to_string(id); }

 private:
  std::vector<Field> fields_ = {{"input", "F32", {2, 2}}, {"target", "I64", {}}};
};

std::vector<std::int64_t> ids_of_epoch(Loader& loader, std::int64_t epoch, std::int64_t first = 0) {
  std::vector<std::int64_t> ids;
  loader.seek(epoch, first);
  while (const auto batch = loader.next()) ids.insert(ids.end(), batch->ids.begin(), batch->ids.end());
  return ids;
}

TEST(Loader, GivesTensorsOfTheFieldsTypesAndShapesWithTheRowsOfItsIds) {
  for (const int workers : {0, 2}) {
    Loader loader(std::make_shared<Numbers>(), {.global_batch = 4, .seed = 7, .workers = workers});
    loader.seek(3, 0);
    for (const std::int64_t samples : {4, 4, 2}) {
      const auto batch = loader.next();
      ASSERT_TRUE(batch);
      EXPECT_EQ(batch->epoch, 3);
      EXPECT_EQ(batch->samples(), samples);
      EXPECT_EQ(batch->global_samples, samples);
      ASSERT_EQ(batch->fields.size(), 2U);
      EXPECT_EQ(batch->input().scalar_type(), at::kFloat);
      EXPECT_EQ(batch->input().sizes(), (at::IntArrayRef{samples, 2, 2}));
      EXPECT_EQ(batch->target().scalar_type(), at::kLong);
      EXPECT_EQ(batch->target().sizes(), at::IntArrayRef{samples});
      for (std::int64_t row = 0; row < samples; ++row) {
        const auto id = batch->ids[static_cast<std::size_t>(row)];
        EXPECT_EQ(batch->target()[row].item<std::int64_t>(), 100 + id);
        EXPECT_EQ(batch->input()[row][0][1].item<float>(), static_cast<float>(id) + 0.5F);
        EXPECT_EQ(batch->input()[row][1][1].item<float>(), 3.0F);
      }
    }
    EXPECT_FALSE(loader.next());
  }
}

TEST(Loader, RanksTogetherReadEachGlobalBatchOfTheEpochsOrder) {
  const EpochOrder order(kSamples, 7, 1);
  std::vector<std::unique_ptr<Loader>> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<Loader>(std::make_shared<Numbers>(),
                                             LoaderOptions{.global_batch = 4, .shard = {rank, 3}, .seed = 7}));
    ranks.back()->seek(1, 0);
  }
  std::int64_t place = 0;
  for (int b = 0; b < 3; ++b) {
    for (auto& rank : ranks) {
      const auto batch = rank->next();
      ASSERT_TRUE(batch);
      EXPECT_EQ(batch->index, b);
      for (const auto id : batch->ids) EXPECT_EQ(id, order[place++]);
    }
  }
  EXPECT_EQ(place, kSamples);
}

TEST(Loader, ARankWithAnEmptyPartGetsTensorsWithoutRows) {
  Loader loader(std::make_shared<Numbers>(), {.global_batch = 4, .shard = {3, 4}, .seed = 7});
  loader.seek(0, 8);
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->samples(), 0);
  EXPECT_EQ(batch->global_samples, 2);
  EXPECT_EQ(batch->input().sizes(), (at::IntArrayRef{0, 2, 2}));
  EXPECT_EQ(batch->target().sizes(), at::IntArrayRef{0});
  EXPECT_FALSE(loader.next());
}

TEST(Loader, ABatchOutlivesTheNextOnesAndTheLoader) {
  std::optional<Batch> kept;
  {
    Loader loader(std::make_shared<Numbers>(), {.global_batch = 5, .seed = 1, .workers = 1, .prefetch = 1});
    kept = loader.next();
    for (int i = 0; i < 4; ++i) loader.next();
  }
  for (std::int64_t row = 0; row < 5; ++row) {
    EXPECT_EQ(kept->target()[row].item<std::int64_t>(), 100 + kept->ids[static_cast<std::size_t>(row)]);
  }
}

TEST(Loader, SeekGoesOnAtAnyPlaceOfTheOrder) {
  const EpochOrder order(kSamples, 7, 2);
  Loader loader(std::make_shared<Numbers>(), {.global_batch = 4, .seed = 7});
  for (const std::int64_t first : {0, 4, 8, 10}) {
    std::vector<std::int64_t> wanted;
    for (auto place = first; place < kSamples; ++place) wanted.push_back(order[place]);
    EXPECT_EQ(ids_of_epoch(loader, 2, first), wanted) << "from " << first;
  }
}

// A run that resumes with another global batch continues at an index that is no multiple of the new one.
TEST(Loader, SeekToAPlaceWithinABatchMissesAndRepeatsNothing) {
  const EpochOrder order(kSamples, 7, 2);
  Loader loader(std::make_shared<Numbers>(), {.global_batch = 4, .seed = 7});
  for (const std::int64_t first : {3, 6, 9}) {
    std::vector<std::int64_t> wanted;
    for (auto place = first; place < kSamples; ++place) wanted.push_back(order[place]);
    EXPECT_EQ(ids_of_epoch(loader, 2, first), wanted) << "from " << first;
  }
}

TEST(Loader, SyntheticSamplesAreTheSameOnEveryRank) {
  const auto source = [] {
    return std::shared_ptr<const SampleSource>(
        synthetic_source({.samples = 20, .classes = 3, .shape = {2, 2}, .seed = 5}));
  };
  Loader whole(source(), {.global_batch = 20, .shuffle = false});
  Loader second(source(), {.global_batch = 20, .shard = {1, 2}, .shuffle = false});
  const auto all = whole.next();
  const auto part = second.next();
  ASSERT_EQ(part->samples(), 10);
  EXPECT_TRUE(at::equal(part->input(), all->input().slice(0, 10)));
  EXPECT_TRUE(at::equal(part->target(), all->target().slice(0, 10)));
}

}  // namespace
}  // namespace lockstep
