// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/guard/state_comparison.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <random>

#include "lockstep/train/optim/optimizer.h"
#include "tests/support/ranks.h"
#include "tests/support/watched_device.h"

namespace lockstep {
namespace {

using testing::message_of;

struct Trained {
  explicit Trained(const std::string& name = "adamw") {
    torch::manual_seed(3);
    net = torch::nn::Sequential(torch::nn::Linear(5, 7), torch::nn::Linear(7, 3));
    optimizer = make_optimizer(net->parameters(), {.name = name, .lr = 0.1, .momentum = 0.9});
    step();
  }
  void step() {
    optimizer->zero_grad();
    net->forward(at::ones({2, 5})).sum().backward();
    optimizer->step();
  }

  torch::nn::Sequential net;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

void flip(const at::Tensor& tensor, std::int64_t bit) {
  auto* bytes = static_cast<std::uint8_t*>(tensor.mutable_data_ptr());
  bytes[bit / 8] ^= static_cast<std::uint8_t>(1U << static_cast<unsigned>(bit % 8));
}

RANKS_TEST(StateComparison, ARankWithAFlippedBitOfAWeightIsNamed, 3) {
  Trained trained;
  StateComparison comparison(*trained.net, *trained.optimizer, group, {.every_steps = 4});
  EXPECT_FALSE(comparison.is_due(3));
  EXPECT_TRUE(comparison.is_due(4));
  EXPECT_EQ(comparison.compare(4, 1), "");
  if (group.rank() == 1) flip(trained.net->parameters().at(2), 77);
  const auto text = message_of(ErrorKind::kEnvironment, [&] { comparison.compare(8, 1); });
  EXPECT_NE(text.find("rank 1 ("), std::string::npos) << text;
  EXPECT_NE(text.find("holds other state than the other 2 ranks after step 8"), std::string::npos) << text;
  EXPECT_NE(text.find("the first tensor that differs is 1.weight; all held the same after step 4"), std::string::npos)
      << text;
  EXPECT_NE(text.find("--sbatch=--exclude="), std::string::npos) << text;
}

RANKS_TEST(StateComparison, SoIsOneWithAFlippedBitOfTheOptimizersState, 3) {
  Trained trained;
  StateComparison comparison(*trained.net, *trained.optimizer, group, {});
  auto& state = static_cast<torch::optim::AdamWParamState&>(
      *trained.optimizer->state().at(trained.net->parameters().at(1).unsafeGetTensorImpl()));
  if (group.rank() == 2) flip(state.exp_avg_sq(), 3);
  const auto text = message_of(ErrorKind::kEnvironment, [&] { comparison.compare(1, 1); });
  EXPECT_NE(text.find("rank 2 ("), std::string::npos) << text;
  EXPECT_NE(text.find("the optimizer's 0.bias"), std::string::npos) << text;
  EXPECT_NE(text.find("exp_avg_sq"), std::string::npos) << text;
}

// Every rank draws the same numbers. The rank that is drawn flips the bit, and later flips it back.
RANKS_TEST(StateComparison, AThousandFlippedBitsOfAThousandAreFoundAndTheRankIsNamed, 3) {
  Trained trained;
  StateComparison comparison(*trained.net, *trained.optimizer, group, {.every_steps = 1});
  std::vector<at::Tensor> tensors = trained.net->parameters();
  for (const auto& each : trained.net->parameters()) {
    auto& state =
        static_cast<torch::optim::AdamWParamState&>(*trained.optimizer->state().at(each.unsafeGetTensorImpl()));
    tensors.push_back(state.exp_avg());
    tensors.push_back(state.exp_avg_sq());
  }
  std::mt19937_64 random(11);
  for (int i = 0; i < 1000; ++i) {
    const auto& tensor = tensors[random() % tensors.size()];
    const auto bit = static_cast<std::int64_t>(random() % (tensor.nbytes() * 8));
    const auto rank = static_cast<int>(random() % 3);
    if (group.rank() == rank) flip(tensor, bit);
    const auto text = message_of(ErrorKind::kEnvironment, [&] { comparison.compare(1, 1); });
    ASSERT_NE(text.find("rank " + std::to_string(rank) + " ("), std::string::npos) << text;
    if (group.rank() == rank) flip(tensor, bit);
  }
  EXPECT_EQ(comparison.compare(2, 1), "");
}

RANKS_TEST(StateComparison, TwoRanksCannotTellWhichOfThemIsRight, 2) {
  Trained trained;
  StateComparison comparison(*trained.net, *trained.optimizer, group, {.on_difference = OnDifference::kHeal});
  if (group.rank() == 1) flip(trained.net->parameters().at(0), 0);
  const auto text = message_of(ErrorKind::kEnvironment, [&] { comparison.compare(1, 1); });
  EXPECT_NE(text.find("ranks 0 ("), std::string::npos) << text;
  EXPECT_NE(text.find(", 1 ("), std::string::npos) << text;
  EXPECT_NE(text.find("no majority tells which rank is right"), std::string::npos) << text;
}

RANKS_TEST(StateComparison, HealedRanksHoldTheStateOfTheMajority, 3) {
  Trained trained;
  StateComparison comparison(*trained.net, *trained.optimizer, group, {.on_difference = OnDifference::kHeal});
  const auto wanted = trained.net->parameters().at(0).detach().clone();
  if (group.rank() == 0) flip(trained.net->parameters().at(0), 9);
  const auto text = comparison.compare(1, 1);
  EXPECT_NE(text.find("rank 0 ("), std::string::npos) << text;
  EXPECT_NE(text.find("it took the state of rank 1"), std::string::npos) << text;
  EXPECT_TRUE(at::equal(trained.net->parameters().at(0), wanted));
  EXPECT_EQ(comparison.compare(2, 1), "");
}

RANKS_TEST(StateComparison, AnotherNumberOfTensorsIsTold, 2) {
  Trained trained;
  StateComparison comparison(*trained.net, *trained.optimizer, group, {});
  if (group.rank() == 1) trained.optimizer->state().clear();
  const auto text = message_of(ErrorKind::kEnvironment, [&] { comparison.compare(1, 1); });
  EXPECT_NE(text.find("ranks do not train the same after step 1"), std::string::npos) << text;
}

RANKS_TEST(StateComparison, ComparesParametersAloneWithAnOptimizerOfUnknownKind, 2) {
  torch::manual_seed(3);
  torch::nn::Linear net(3, 2);
  struct Odd : torch::optim::OptimizerCloneableOptions<Odd> {};
  struct Own : torch::optim::Optimizer {
    explicit Own(std::vector<at::Tensor> parameters)
        : Optimizer({torch::optim::OptimizerParamGroup(std::move(parameters))}, std::make_unique<Odd>()) {}
    at::Tensor step(LossClosure) override { return {}; }
  };
  Own own(net->parameters());
  StateComparison comparison(*net, own, group, {});
  EXPECT_EQ(comparison.compare(1, 1), "");
  if (group.rank() == 1) flip(net->weight, 5);
  EXPECT_NE(message_of(ErrorKind::kEnvironment, [&] { comparison.compare(2, 1); }).find("weight"), std::string::npos);
}

RANKS_TEST(StateComparison, ByDefaultTheSlowestRankSetsTheNextTime, 2) {
  Trained trained;
  StateComparison comparison(*trained.net, *trained.optimizer, group, {});
  EXPECT_FALSE(comparison.is_due(9));
  EXPECT_TRUE(comparison.is_due(10));
  // Only rank 1 measures a step that takes no time. Both ranks must use the longest interval.
  EXPECT_EQ(comparison.compare(10, group.rank() == 0 ? 1e6 : 0), "");
  EXPECT_FALSE(comparison.is_due(10'009));
  EXPECT_TRUE(comparison.is_due(10'010));
}

// The sums themselves cannot notice that a peer is lost.
TEST(StateComparison, FirstWaitsForTheDeviceAndLooksAtTheCollectivesMeanwhile) {
  if (!testing::is_rank()) return testing::expect_of_ranks({.world = 2});
  testing::begin_rank();
  const testing::WatchedDevice device;
  auto group = testing::on_device(join(), device);
  Trained trained;
  StateComparison comparison(*trained.net, *trained.optimizer, group, {});
  EXPECT_EQ(comparison.compare(1, 1), "");
  EXPECT_EQ(device.synchronisations, 1);
  EXPECT_GE(device.told.asked, device.looks);
}

TEST(StateComparison, TakesAHundredthOfTheTime) {
  EXPECT_EQ(StateComparison::steps_between(0.1, 0.1), 100);
  EXPECT_EQ(StateComparison::steps_between(0.1, 0.01), 1000);
  EXPECT_EQ(StateComparison::steps_between(1e-6, 1), 10);
  EXPECT_EQ(StateComparison::steps_between(100, 1e-9), 10'000);
  EXPECT_EQ(StateComparison::steps_between(1, 0), 10'000);
}

TEST(BitSums, ChangeWithEachBitOfAnyType) {
  std::mt19937_64 random(5);
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kByte}) {
    const auto transposed = at::ones({6, 4}, type).t();
    const auto sliced = at::ones({6, 8}, type).slice(1, 0, 8, 2);
    for (const auto& tensor : {at::ones({37}, type), transposed}) {
      const auto before = bit_sums({tensor, sliced});
      for (int i = 0; i < 50; ++i) {
        const auto bit = static_cast<std::int64_t>(random() % (tensor.nbytes() * 8));
        flip(tensor, bit);
        const auto after = bit_sums({tensor, sliced});
        EXPECT_NE(after[0], before[0]) << type << " bit " << bit;
        EXPECT_EQ(after[1], before[1]);
        flip(tensor, bit);
      }
    }
  }
  EXPECT_EQ(bit_sums({at::empty({0})}).size(), 1U);
}

}  // namespace
}  // namespace lockstep
