// SPDX-License-Identifier: Apache-2.0
#include "lockstep/device/out_of_memory.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST(LargestBatch, LiesOnTheLineThroughWhatWasMeasured) {
  // A batch needs 2 GiB, and 1/64 GiB for each sample. So 16 GiB are enough for (16 - 2) * 64 samples.
  const std::vector<BatchPeak> peaks = {{128, 4 * kGiB}, {64, 3 * kGiB}};
  EXPECT_EQ(largest_batch(peaks, 1024, 16 * kGiB), 896);
  EXPECT_EQ(largest_batch(peaks, 512, 16 * kGiB), 511) << "the one that failed is not to be tried again";
}

TEST(LargestBatch, IsTheMeasuredOneWhereNoLineCanBeDrawn) {
  EXPECT_EQ(largest_batch({}, 64, kGiB), std::nullopt);
  EXPECT_EQ(largest_batch({{8, kGiB}}, 64, 2 * kGiB), 8);
  EXPECT_EQ(largest_batch({{8, kGiB}, {4, kGiB}}, 64, 2 * kGiB), 8);
}

TEST(OutOfMemory, SaysWhatHoldsTheMemoryAndWhatWouldFit) {
  const OutOfMemory error({.device = "Fake 9000",
                           .batch = 1024,
                           .usable = 16 * kGiB,
                           .kept = 2 * kGiB,
                           .peaks = {{128, 4 * kGiB}, {64, 3 * kGiB}}});
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_HAS(error.what(), "a batch of 1024 does not fit into the memory of Fake 9000: this process can hold 16.0 GiB");
  EXPECT_HAS(error.what(), "2.0 GiB of it are taken by weights, buffers and what the optimizer keeps");
  EXPECT_HAS(error.what(), "about 896 would fit: --set data.batch=896");
}

}  // namespace
}  // namespace lockstep
