// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/sums/rank_part.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

RankPart some_part() {
  RankPart part;
  part.losses = {.epoch = {0.1 + 0.2, 7}, .since_logged = {std::numeric_limits<double>::infinity(), 3}};
  part.digest.sums = {0xffffffffffffffff, 12};
  part.metrics = {{"", {1.5, 2}}, {"accuracy \xc3\xa4", {1e-300, 9}}};
  part.numbers = {{"early_stopping.best", -0.0}};
  return part;
}

std::vector<at::Tensor> some_buffers() {
  return {torch::randn({3, 4}), torch::tensor(5, at::kLong), torch::empty({0}), torch::randn({4, 2}).t().to(at::kHalf)};
}

std::vector<std::byte> record_of(const RankPart& part, const std::vector<at::Tensor>& buffers) {
  std::vector<std::byte> record(record_bytes(part, buffers));
  write_record(part, buffers, record);
  return record;
}

TEST(RankPart, ComesBackBitForBit) {
  const auto part = some_part();
  const auto buffers = some_buffers();
  const auto record = record_of(part, buffers);
  std::vector<at::Tensor> taken;
  for (const auto& each : buffers) taken.push_back(torch::zeros_like(each));
  const auto back = read_record(record, taken);
  EXPECT_EQ(back.losses.epoch.total, part.losses.epoch.total);
  EXPECT_EQ(back.losses.epoch.samples, 7);
  EXPECT_EQ(back.losses.since_logged.total, part.losses.since_logged.total);
  EXPECT_EQ(back.digest.sums, part.digest.sums);
  ASSERT_EQ(back.metrics.size(), 2U);
  EXPECT_EQ(back.metrics.at("accuracy \xc3\xa4").total, 1e-300);
  EXPECT_TRUE(std::signbit(back.numbers.at("early_stopping.best")));
  for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(taken[i].equal(buffers[i])) << i;
}

TEST(RankPart, ThatIsCutShortAnywhereIsRefused) {
  const auto buffers = some_buffers();
  const auto record = record_of(some_part(), buffers);
  for (std::size_t bytes = 0; bytes < record.size(); ++bytes) {
    EXPECT_THROW(read_record(std::span(record).first(bytes), buffers), Error) << bytes;
  }
}

TEST(RankPart, OfAnotherModelIsRefused) {
  const auto record = record_of(some_part(), some_buffers());
  EXPECT_THROW(read_record(record, {torch::zeros({3, 4})}), Error);
  EXPECT_THROW(read_record(record, {torch::zeros({3, 5}), torch::tensor(5, at::kLong), torch::empty({0}),
                                    torch::zeros({2, 4}, at::kHalf)}),
               Error);
}

}  // namespace
}  // namespace lockstep
