// SPDX-License-Identifier: Apache-2.0
#include "lockstep/loader/device_cache.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/source/image_source.h"
#include "lockstep/data/source/sources.h"
#include "lockstep/data/source/synthetic_source.h"
#include "lockstep/data/transform/transform_list.h"
#include "lockstep/loader/loader.h"
#include "tests/support/made_up_images.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::MadeUpImages;
using testing::message_of;

std::shared_ptr<const SampleSource> images_with(std::vector<std::string> list) {
  return transformed(std::make_shared<MadeUpImages>(), parsed_transforms(list, "data.transforms"));
}

// Compares every batch of some epochs from a cache with the same batch read again. Bytes and order must be the same.
void expect_same_batches(const std::shared_ptr<const SampleSource>& source) {
  const LoaderOptions options{.global_batch = 4, .shard = {1, 2}, .seed = 9};
  Loader read(source, options), kept(source, options);
  kept.cache_on(c10::kCPU);
  EXPECT_EQ(&kept.source(), source.get());
  for (const std::int64_t epoch : {0, 1, 5}) {
    read.seek(epoch);
    kept.seek(epoch);
    while (const auto wanted = read.next()) {
      auto places = kept.next();
      ASSERT_TRUE(places);
      EXPECT_EQ(places->ids, wanted->ids);
      EXPECT_EQ(places->fields.size(), 1U);
      const auto found = materialize(std::move(*places));
      ASSERT_EQ(found.fields.size(), wanted->fields.size());
      for (std::size_t i = 0; i < found.fields.size(); ++i) {
        EXPECT_EQ(found.fields[i].scalar_type(), wanted->fields[i].scalar_type());
        EXPECT_TRUE(at::equal(found.fields[i], wanted->fields[i])) << "field " << i << " of epoch " << epoch;
      }
    }
    EXPECT_FALSE(kept.next());
  }
}

TEST(DeviceCache, AreWhatTheSourceReads) {
  expect_same_batches(std::make_shared<MadeUpImages>());
  expect_same_batches(synthetic_source({.samples = 50, .classes = 3, .shape = {2, 5}, .seed = 4}));
}

TEST(DeviceCache, MoveTheirPixelsAsTheSourceDoes) {
  const std::vector<std::vector<std::string>> lists = {
      {"flip"},
      {"random_crop(7, 10, padding=3)", "flip"},
      {"random_crop(4, 6)"},
      {"flip", "random_crop(5, padding=2)"},
      {"flip(0.9)", "random_crop(5)", "flip"},
      {"center_crop(5, 4)", "flip"},
      {"center_crop(12)", "flip"},
      {"center_crop(9, 6)"},
      {"resize(8)", "normalize(imagenet)"},
  };
  for (const auto& list : lists) {
    SCOPED_TRACE(list[0]);
    expect_same_batches(images_with(list));
  }
}

TEST(DeviceCache, OfASubsetMoveAsTheWholeSetsDo) {
  std::vector<std::int64_t> ids = {20, 3, 3, 7, 0, 19, 11};
  expect_same_batches(subset(images_with({"random_crop(7, padding=2)", "flip"}), ids));
  expect_same_batches(subset(std::make_shared<MadeUpImages>(), ids));
}

TEST(DeviceCache, AreNotTakenFromASourceThatChangesMoreThanWhichPixelsAreRead) {
  EXPECT_FALSE(images_with({"color_jitter(0.4)"})->fixed());
  EXPECT_FALSE(images_with({"random_resized_crop(5)"})->fixed());
  EXPECT_FALSE(images_with({"random_crop(6, padding=2)", "random_crop(6, padding=2)"})->fixed());
  EXPECT_FALSE(subset(images_with({"color_jitter(0.4)"}), {1, 2})->fixed());
}

TEST(DeviceCache, TakeTheMarginsToo) {
  EXPECT_EQ(DeviceCache::bytes_of(*std::make_shared<MadeUpImages>()->fixed()), 21 * (3 * 7 * 10 + 8));
  EXPECT_EQ(DeviceCache::bytes_of(*images_with({"random_crop(7, 10, padding=3)"})->fixed()), 21 * (3 * 13 * 16 + 8));
}

TEST(DeviceCache, ThatCannotBeReadAreNamed) {
  auto images = std::make_shared<MadeUpImages>();
  images->bad = 13;
  Loader loader(images, {.global_batch = 4});
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { loader.cache_on(c10::kCPU); }), "image 13: it is damaged");
}

TEST(DeviceCache, AreReachedThroughPartsOfABatch) {
  Loader kept(images_with({"random_crop(7, padding=2)", "flip"}), {.global_batch = 8, .seed = 2});
  kept.cache_on(c10::kCPU);
  const auto batch = *kept.next();
  const auto all = materialize(batch);
  const auto some = materialize(head(batch, 3));
  EXPECT_TRUE(at::equal(some.input(), all.input().narrow(0, 0, 3)));
  EXPECT_EQ(some.samples(), 3);
}

}  // namespace
}  // namespace lockstep
