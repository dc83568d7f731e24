// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/shared_restore.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>

#include "lockstep/snapshot/optimizer_state.h"
#include "lockstep/train/optim/optimizer.h"
#include "tests/support/ranks.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

struct Net : torch::nn::Module {
  explicit Net(std::uint64_t seed) {
    torch::manual_seed(seed);
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    frozen = register_parameter("frozen", torch::rand({5}), /*requires_grad=*/false);
    conv->weight.set_data(conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
  }
  at::Tensor loss() { return norm(conv(torch::rand({2, 3, 6, 6}))).square().sum(); }

  torch::nn::Conv2d conv = nullptr;
  torch::nn::BatchNorm2d norm = nullptr;
  at::Tensor frozen;
};

std::unique_ptr<torch::optim::Optimizer> adam(Net& net) {
  std::vector<at::Tensor> trained;
  for (const auto& each : net.parameters()) {
    if (each.requires_grad()) trained.push_back(each);
  }
  return make_optimizer(trained, {.name = "adam", .lr = 0.01, .amsgrad = true});
}

void step(Net& net, torch::optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  net.loss().backward();
  optimizer.step();
}

// Returns the state of a rank as text: names, shapes and sums of bits.
std::string state_of(Net& net, torch::optim::Optimizer& optimizer) {
  std::string out = weights_digest(net) + "\n";
  for (const auto& [name, tensor, is_shared] : optimizer_tensors(optimizer, parameter_names(net))) {
    const auto bits = tensor.scalar_type() == at::kLong ? tensor : tensor.contiguous().view(at::kInt).to(at::kLong);
    out += name + " " + std::to_string(bits.sum().item<std::int64_t>()) + " " + std::to_string(tensor.numel()) + "\n";
  }
  return out;
}

RANKS_TEST(SharedRestore, GivesAllRanksWhatRankZeroAloneReads, 3) {
  const TemporaryFolder folder;
  Net net(static_cast<std::uint64_t>(group.rank()));
  auto optimizer = adam(net);
  for (int i = 0; i < 3; ++i) step(net, *optimizer);
  auto snapshot = folder.path() / "there is none on this rank";
  std::string wanted;
  if (group.is_main()) {
    snapshot = write_snapshot(folder.path(), content_of(net, *optimizer, {.step = 3, .epoch = 1, .place = 12})).path;
    wanted = state_of(net, *optimizer);
  }
  Net other(17);
  auto restored = adam(other);
  if (group.rank() == 2) step(other, *restored);  // State of its own, which must go.
  const auto state = restore_shared(snapshot, other, *restored, group);
  share_weights(other, group);
  EXPECT_EQ(state.step, 3);
  EXPECT_EQ(state.place, 12);
  EXPECT_EQ(state_of(other, *restored), group.broadcast_text(wanted));
  EXPECT_TRUE(other.conv->weight.is_contiguous(at::MemoryFormat::ChannelsLast));
}

RANKS_TEST(SharedRestore, FailsOnAllRanksAlike, 2) {
  const TemporaryFolder folder;
  Net net(1);
  auto optimizer = adam(net);
  std::filesystem::path snapshot = "none";
  if (group.is_main()) {
    snapshot = write_snapshot(folder.path(), content_of(net, *optimizer, {.step = 3})).path;
    std::ofstream(snapshot / "state.json") << "{}";
  }
  const auto text = message_of(ErrorKind::kData, [&] { restore_shared(snapshot, net, *optimizer, group); });
  EXPECT_NE(text.find("state.json"), std::string::npos) << text;
}

RANKS_TEST(SharedTensors, ArriveOneAfterTheOtherOnEachRank, 2) {
  const TemporaryFolder folder;
  std::filesystem::path snapshot = "none";
  if (group.is_main()) {
    Net net(1);
    auto optimizer = adam(net);
    const std::vector<SavedTensor> tensors = {{"a.one", at::arange(6, at::kDouble).view({2, 3})},
                                              {"b.two", at::ones({4}, at::kHalf)},
                                              {"a.count", at::full({}, 7, at::kLong)}};
    snapshot = write_snapshot(folder.path(), content_of(net, *optimizer, {.step = 3}, tensors)).path;
  }
  std::map<std::string, at::Tensor> found;
  for_each_shared_tensor(
      snapshot, group, [](const auto& name) { return name.starts_with("a."); },
      [&](const auto& name, const auto& tensor) { found[name] = tensor; });
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found.at("a.one").equal(at::arange(6, at::kDouble).view({2, 3})));
  EXPECT_EQ(found.at("a.count").item<std::int64_t>(), 7);
}

RANKS_TEST(SharedTensors, ThatOneRankRefusesAreAnErrorOfAll, 2) {
  const TemporaryFolder folder;
  std::filesystem::path snapshot = "none";
  if (group.is_main()) {
    Net net(1);
    auto optimizer = adam(net);
    const std::vector<SavedTensor> tensors = {{"one", at::ones({2})}, {"two", at::ones({2})}};
    snapshot = write_snapshot(folder.path(), content_of(net, *optimizer, {.step = 3}, tensors)).path;
  }
  const auto text = message_of(ErrorKind::kData, [&] {
    for_each_shared_tensor(
        snapshot, group, [](const auto&) { return true; },
        [&](const auto& name, const auto&) {
          if (group.rank() == 1) throw Error(ErrorKind::kData, name + " does not fit", "use another");
        });
  });
  EXPECT_NE(text.find("one does not fit"), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep
