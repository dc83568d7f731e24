// SPDX-License-Identifier: Apache-2.0
#include "lockstep/snapshot/optimizer_state.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

// Two layers, each of which may have an optimizer of its own.
struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(3);
    first = register_module("first", torch::nn::Linear(3, 4));
    second = register_module("second", torch::nn::Linear(4, 2));
  }
  std::map<const void*, std::string> names() const {
    std::map<const void*, std::string> out;
    for (const auto& item : named_parameters()) out[item.value().unsafeGetTensorImpl()] = item.key();
    return out;
  }

  torch::nn::Linear first = nullptr, second = nullptr;
};

struct TwoOptimizers {
  explicit TwoOptimizers(Net& net)
      : sgd(net.first->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
        adam(net.second->parameters(), torch::optim::AdamOptions(0.01)) {}

  torch::optim::SGD sgd;
  torch::optim::Adam adam;
};

std::map<std::string, at::Tensor> by_name(const std::vector<SavedTensor>& tensors) {
  std::map<std::string, at::Tensor> out;
  for (const auto& each : tensors) out[each.name] = each.tensor;
  return out;
}

void make_step(Net& net, TwoOptimizers& optimizers) {
  for (auto& each : net.parameters()) each.mutable_grad() = at::full_like(each, 0.5);
  optimizers.sgd.step();
  optimizers.adam.step();
}

void expect_equal(const std::vector<SavedTensor>& found, const std::vector<SavedTensor>& wanted) {
  const auto tensors = by_name(found);
  EXPECT_EQ(tensors.size(), wanted.size());
  for (const auto& each : wanted) EXPECT_TRUE(tensors.at(each.name).equal(each.tensor)) << each.name;
}

TEST(OptimizerState, OfOneOptimizerHasNoPrefix) {
  Net net;
  TwoOptimizers optimizers(net);
  make_step(net, optimizers);
  const auto tensors = by_name(optimizer_tensors(optimizers.sgd, net.names()));
  EXPECT_EQ(tensors.size(), 2);
  EXPECT_TRUE(tensors.contains("first.weight.momentum_buffer"));
}

TEST(OptimizerState, OfSeveralOptimizersComesBackToEach) {
  Net net;
  TwoOptimizers optimizers(net);
  make_step(net, optimizers);
  auto tensors = by_name(optimizer_tensors(optimizers.sgd, net.names(), {.index = 0, .count = 2}));
  tensors.merge(by_name(optimizer_tensors(optimizers.adam, net.names(), {.index = 1, .count = 2})));
  EXPECT_TRUE(tensors.contains("0/first.weight.momentum_buffer"));
  EXPECT_TRUE(tensors.contains("1/second.bias.exp_avg_sq"));
  EXPECT_EQ(tensors.size(), 2 + 2 * 3);

  Net other;
  TwoOptimizers restored(other);
  restore_optimizer(restored.sgd, other.names(), tensors, {.index = 0, .count = 2});
  restore_optimizer(restored.adam, other.names(), tensors, {.index = 1, .count = 2});
  expect_equal(optimizer_tensors(restored.sgd, other.names()), optimizer_tensors(optimizers.sgd, net.names()));
  expect_equal(optimizer_tensors(restored.adam, other.names()), optimizer_tensors(optimizers.adam, net.names()));
}

TEST(OptimizerState, ThatBelongsToNobodyIsNamed) {
  Net net;
  TwoOptimizers optimizers(net);
  const auto refused = [&](const std::string& name, OptimizerPlace place = {}) {
    return message_of(ErrorKind::kData, [&] {
      restore_optimizer(optimizers.sgd, net.names(), {{name, at::ones({9})}}, place);
    });
  };
  EXPECT_HAS(refused("fc9.weight.momentum_buffer"), "state for 'fc9.weight', which is not trained");
  EXPECT_HAS(refused("0/first.weight.momentum_buffer"), "state for '0/first.weight', which is not trained");
  EXPECT_HAS(refused("first.weight.secret"), "holds 'first.weight.secret', which is not part");
  EXPECT_HAS(refused("first.bias.momentum_buffer"), "'first.bias.momentum_buffer' does not have its parameter's shape");
  EXPECT_HAS(refused("first.bias.momentum_buffer", {.index = 0, .count = 2}), "which is not part");
  EXPECT_HAS(refused("2/first.bias.momentum_buffer", {.index = 0, .count = 2}), "which is not part");
}

}  // namespace
}  // namespace lockstep
