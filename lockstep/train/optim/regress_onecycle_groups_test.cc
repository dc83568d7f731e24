// SPDX-License-Identifier: Apache-2.0
// The fault: OneCycleSchedule used max_lr for every parameter group, even if the group had a learning rate of its own.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/train/optim/schedule.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

torch::optim::OptimizerParamGroup group_with(std::optional<double> lr) {
  std::vector<at::Tensor> weights = {at::zeros({1}).requires_grad_()};
  if (!lr) return torch::optim::OptimizerParamGroup(weights);
  return {weights, std::make_unique<torch::optim::SGDOptions>(torch::optim::SGDOptions(*lr).momentum(0.9))};
}

torch::optim::SGD sgd(const std::vector<std::optional<double>>& rates, double base_rate) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const auto& each : rates) groups.push_back(group_with(each));
  return torch::optim::SGD(groups, torch::optim::SGDOptions(base_rate).momentum(0.9));
}

// The golden file's max_lr are 0.5, 0.05 and 1.25. The first group has no rate of its own.
TEST(OneCycleGroups, HaveThePeaksThatPyTorchIsGivenAsAList) {
  const auto golden =
      nlohmann::json::parse(text_of_file(lockstep::testing::source_root() / "tests/golden/trainer/options.json"));
  auto optimizer = sgd({std::nullopt, 0.01, 0.25}, 0.1);
  Scheduler scheduler({.schedule = OneCycleSchedule{.max_lr = 0.5, .total_steps = 12}, .by_step = true}, optimizer);
  const auto& wanted = golden.at("onecycle_groups");
  ASSERT_EQ(wanted.size(), 12U);
  for (std::size_t t = 0; t < wanted.size(); ++t) {
    scheduler.prepare(static_cast<std::int64_t>(t), 0);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(optimizer.param_groups()[i].options().get_lr(), wanted[t][i].get<double>(), 1e-12) << t << " " << i;
    }
  }
}

TEST(OneCycleGroups, WithARateNeedABaseRateToCompareItWith) {
  auto optimizer = sgd({std::nullopt, 0.01}, 0);
  EXPECT_HAS(lockstep::testing::message_of(
                 ErrorKind::kRecipe,
                 [&] { Scheduler({.schedule = OneCycleSchedule{.max_lr = 0.5, .total_steps = 12}}, optimizer); }),
             "onecycle scales max_lr by a group's rate over the optimizer's, which is 0");
}

}  // namespace
}  // namespace lockstep
