// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/batch_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <barrier>
#include <thread>

#include "lockstep/models/network.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

// A StatisticsSync for ranks that are threads of one process.
class Ranks {
 public:
  explicit Ranks(std::size_t count) : tensors_(count), met_(static_cast<std::ptrdiff_t>(count)) {}

  std::shared_ptr<StatisticsSync> sync(std::size_t rank, bool takes_part) {
    return std::make_shared<StatisticsSync>(
        StatisticsSync{[this, rank](at::Tensor& tensor) { sum(rank, tensor); }, takes_part});
  }

 private:
  void sum(std::size_t rank, at::Tensor& tensor) {
    tensors_[rank] = tensor;
    met_.arrive_and_wait();
    auto total = at::zeros_like(tensor);
    for (const auto& each : tensors_) total += each;
    met_.arrive_and_wait();
    tensor.copy_(total);
    met_.arrive_and_wait();
  }

  std::vector<at::Tensor> tensors_;
  std::barrier<> met_;
};

struct Result {
  at::Tensor output;
  at::Tensor of_input;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> buffers;
};

// A network of two layers, so that gradients pass through one to the other. The channels' means are far from zero.
struct Layers : torch::nn::Module {
  explicit Layers(at::ScalarType type) {
    first = register_module("first", std::make_shared<BatchNorm>(kChannels));
    second = register_module("second", std::make_shared<BatchNorm>(kChannels));
    convert_floating(*this, type);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) {
      parameter.copy_(at::linspace(0.5, 1.5, kChannels) * (parameter.sum().item<double>() == 0 ? 0.3 : 1));
    }
  }

  at::Tensor forward(const at::Tensor& x) { return second->forward(at::tanh(first->forward(x))); }

  static constexpr std::int64_t kChannels = 5;
  std::shared_ptr<BatchNorm> first;
  std::shared_ptr<BatchNorm> second;
};

at::Tensor batch_of(std::int64_t samples, at::ScalarType type) {
  const auto offset = at::linspace(-20, 30, Layers::kChannels, at::kDouble).view({1, -1, 1, 1});
  const auto count = samples * Layers::kChannels * 6;
  const auto numbers = (at::arange(count, at::kDouble).square() * 37).remainder(101) / 25 - 2;
  return (numbers.view({samples, Layers::kChannels, 2, 3}) + offset).to(type);
}

at::Tensor cost(const at::Tensor& output, const at::Tensor& input) {
  return (output * at::sin(input) + output.pow(3)).sum();
}

Result result_of(Layers& layers, const at::Tensor& batch, double weight) {
  auto input = batch.detach().clone().requires_grad_();
  const auto output = layers.forward(input);
  (cost(output, batch) * weight).backward();
  Result result{output.detach(), input.grad(), {}, {}};
  for (const auto& parameter : layers.parameters()) result.gradients.push_back(parameter.grad());
  for (const auto& buffer : layers.buffers()) result.buffers.push_back(buffer);
  return result;
}

// Runs parts of one batch, each on a rank of its own. A rank without samples runs a stand-in sample with other numbers.
std::vector<Result> results_of(const at::Tensor& batch, const std::vector<std::int64_t>& parts) {
  Ranks ranks(parts.size());
  std::vector<Result> results(parts.size());
  std::vector<std::jthread> threads;
  std::int64_t start = 0;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const auto part = parts[rank] > 0 ? batch.narrow(0, start, parts[rank]) : batch.narrow(0, 0, 1) * 50;
    start += parts[rank];
    threads.emplace_back([&ranks, &results, &parts, rank, part] {
      Layers layers(part.scalar_type());
      EXPECT_EQ(set_statistics_sync(layers, ranks.sync(rank, parts[rank] > 0)), 2);
      results[rank] = result_of(layers, part, parts[rank] > 0 ? 1 : 0);
    });
  }
  threads.clear();
  return results;
}

void expect_near(const at::Tensor& ours, const at::Tensor& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(ours.sizes(), wanted.sizes()) << what;
  const auto scale = std::max(wanted.to(at::kDouble).abs().max().item<double>(), 1e-3);
  EXPECT_LE((ours - wanted).to(at::kDouble).abs().max().item<double>(), tolerance * scale) << what;
}

void expect_parts_equal_whole(at::ScalarType type, double tolerance, const std::vector<std::int64_t>& parts) {
  const auto batch = batch_of(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}), type);
  Layers one(type);
  const auto whole = result_of(one, batch, 1);
  const auto results = results_of(batch, parts);
  std::vector<at::Tensor> outputs, of_input;
  auto gradients = results[0].gradients;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank] > 0) {
      outputs.push_back(results[rank].output);
      of_input.push_back(results[rank].of_input);
    } else {
      EXPECT_EQ(results[rank].of_input.abs().max().item<double>(), 0);
    }
    for (std::size_t i = 0; rank > 0 && i < gradients.size(); ++i)
      gradients[i] = gradients[i] + results[rank].gradients[i];
    for (std::size_t i = 0; i < whole.buffers.size(); ++i) {
      expect_near(results[rank].buffers[i], whole.buffers[i], tolerance, "buffer " + std::to_string(i));
    }
  }
  expect_near(at::cat(outputs), whole.output, tolerance, "outputs");
  expect_near(at::cat(of_input), whole.of_input, tolerance, "gradient of the input");
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    expect_near(gradients[i], whole.gradients[i], tolerance, "gradient " + std::to_string(i));
  }
}

TEST(BatchNorm, IsTorchsBatchNorm2d) {
  torch::nn::BatchNorm2d peer(Layers::kChannels);
  BatchNorm ours(Layers::kChannels);
  ASSERT_EQ(ours.named_parameters().keys(), peer->named_parameters().keys());
  ASSERT_EQ(ours.named_buffers().keys(), peer->named_buffers().keys());
  for (int step = 0; step < 3; ++step) {
    const auto batch = batch_of(3 + step, at::kFloat);
    EXPECT_TRUE(at::equal(ours.forward(batch), peer->forward(batch)));
  }
  ours.eval();
  peer->eval();
  EXPECT_TRUE(at::equal(ours.forward(batch_of(2, at::kFloat)), peer->forward(batch_of(2, at::kFloat))));
  for (const auto& item : peer->named_buffers()) EXPECT_TRUE(at::equal(ours.named_buffers()[item.key()], item.value()));
}

TEST(BatchNorm, PartsOfABatchGiveWhatTheWholeGives) {
  for (const auto& parts : std::vector<std::vector<std::int64_t>>{{7}, {4, 4}, {3, 2}, {1, 1, 1, 1}, {5, 1, 2, 4}}) {
    expect_parts_equal_whole(at::kFloat, 1e-5, parts);
    expect_parts_equal_whole(at::kDouble, 1e-12, parts);
  }
}

TEST(BatchNorm, ARankWithoutSamplesCountsNowhere) {
  for (const auto& parts : std::vector<std::vector<std::int64_t>>{{3, 0}, {2, 0, 1, 0}, {1, 0, 0}}) {
    expect_parts_equal_whole(at::kFloat, 1e-5, parts);
    expect_parts_equal_whole(at::kDouble, 1e-12, parts);
  }
}

TEST(BatchNorm, HalfPrecisionInputsAreCountedInFloat32) {
  const auto batch = batch_of(6, at::kBFloat16);
  BatchNorm one(Layers::kChannels), synced(Layers::kChannels);
  Ranks ranks(1);
  synced.set_sync(ranks.sync(0, true));
  auto a = batch.detach().clone().requires_grad_(), b = batch.detach().clone().requires_grad_();
  const auto wanted = one.forward(a), output = synced.forward(b);
  EXPECT_EQ(output.scalar_type(), at::kBFloat16);
  expect_near(output.to(at::kFloat), wanted.to(at::kFloat), 1e-2, "output");
  expect_near(synced.named_buffers()["running_var"], one.named_buffers()["running_var"], 1e-5, "running_var");
  cost(wanted, batch).backward();
  cost(output, batch).backward();
  EXPECT_EQ(b.grad().scalar_type(), at::kBFloat16);
  expect_near(b.grad().to(at::kFloat), a.grad().to(at::kFloat), 2e-2, "gradient");
}

TEST(BatchNorm, OneNumberAChannelIsRefusedInTraining) {
  BatchNorm layer(3);
  const auto text = message_of(ErrorKind::kRecipe, [&] { layer.forward(at::ones({1, 3, 1, 1})); });
  EXPECT_HAS(text, "a batch in training is [1, 3, 1, 1] at a BatchNorm layer, want more than one number a channel");
  layer.eval();
  EXPECT_EQ(layer.forward(at::ones({1, 3, 1, 1})).numel(), 3);
}

TEST(SetStatisticsSync, FindsEveryLayerOfAModel) {
  const auto resnet = make_network({.name = "resnet50", .input_shape = {3, 32, 32}});
  EXPECT_EQ(set_statistics_sync(*resnet, nullptr), 53);
  EXPECT_EQ(set_statistics_sync(*make_network({.name = "mlp", .input_shape = {4}}), nullptr), 0);
}

TEST(BatchNorm, TakesAPlainMeanBetweenBeginAndEndAsTorchsDoesWithoutMomentum) {
  BatchNorm ours(Layers::kChannels);
  torch::nn::BatchNorm2d theirs(torch::nn::BatchNorm2dOptions(Layers::kChannels).momentum(std::nullopt));
  ours.forward(batch_of(9, at::kFloat) * 3);  // To be forgotten.
  ours.begin_mean();
  for (const std::int64_t samples : {4, 6, 5}) {
    const auto batch = batch_of(samples, at::kFloat) * samples;
    ours.forward(batch);
    theirs->forward(batch);
  }
  ours.end_mean();
  const auto buffers = ours.named_buffers();
  for (const auto& item : theirs->named_buffers()) {
    EXPECT_TRUE(at::allclose(buffers[item.key()], item.value())) << item.key();
  }
  theirs->options.momentum(0.1);
  const auto last = batch_of(7, at::kFloat);
  ours.forward(last);
  theirs->forward(last);
  EXPECT_TRUE(at::allclose(buffers["running_mean"], theirs->running_mean));
}

}  // namespace
}  // namespace lockstep
