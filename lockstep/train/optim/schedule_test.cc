// SPDX-License-Identifier: Apache-2.0
// Schedules with PyTorch's names are held against PyTorch's numbers in lockstep/train/fit/options_golden_test.cc.
#include "lockstep/train/optim/schedule.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

TEST(OwnSchedule, SetsRateAndMomentumOfEachGroup) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (int i = 0; i < 2; ++i) groups.emplace_back(std::vector{at::zeros({1}).requires_grad_()});
  torch::optim::SGD sgd(groups, torch::optim::SGDOptions(1).momentum(0.5));
  std::vector<std::int64_t> asked;
  const OwnSchedule own{.rates = [&](std::int64_t t) {
    asked.push_back(t);
    const auto lr = static_cast<double>(t);
    return std::vector<GroupRate>{{.lr = lr}, {.lr = 2 * lr, .momentum = 0.9}};
  }};
  Scheduler by_step({.schedule = own, .by_step = true}, sgd);
  by_step.prepare(3, 1);
  Scheduler by_epoch({.schedule = own}, sgd);
  by_epoch.prepare(30, 4);
  EXPECT_EQ(asked, (std::vector<std::int64_t>{3, 4}));
  const auto options = [&](std::size_t i) -> const torch::optim::SGDOptions& {
    return static_cast<const torch::optim::SGDOptions&>(sgd.param_groups()[i].options());
  };
  EXPECT_EQ(options(0).lr(), 4);
  EXPECT_EQ(options(1).lr(), 8);
  EXPECT_EQ(options(0).momentum(), 0.5);
  EXPECT_EQ(options(1).momentum(), 0.9);
  EXPECT_TRUE(by_step.moves_momentum()) << "a recorded step would hold the momentum fast";
  EXPECT_TRUE(by_step.state().empty());
}

}  // namespace
}  // namespace lockstep
