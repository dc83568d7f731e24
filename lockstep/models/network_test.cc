// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/network.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;
using testing::message_of;

// As numbers() in tests/golden/models/make.py.
at::Tensor numbers(at::IntArrayRef shape, std::int64_t seed) {
  auto out = at::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out.data_ptr<double>()[i] = static_cast<double>((i * 37 + seed * 11) % 101 - 50) / 256;
  }
  return out;
}

Json golden(const std::string& name) {
  return Json::parse(text_of_file(lockstep::testing::source_root() / "tests/golden/models/models.json")).at(name);
}

void expect_near(double ours, double wanted, const std::string& what) {
  EXPECT_NEAR(ours, wanted, 1e-12 * std::max(std::abs(wanted), 1.0)) << what;
}

void expect_equal_to_pytorch(const NetworkOptions& options) {
  const auto want = golden(options.name);
  const auto network = make_network(options);
  network->to(at::kDouble);
  {
    const torch::NoGradGuard no_grad;
    std::int64_t seed = 0;
    for (auto& parameter : network->parameters()) parameter.copy_(numbers(parameter.sizes(), seed++));
  }
  std::vector<std::int64_t> shape{4};
  shape.insert(shape.end(), options.input_shape.begin(), options.input_shape.end());
  const auto output = network->forward(numbers(shape, 50) * 4);
  EXPECT_EQ(output.sizes(), (at::IntArrayRef{4, 3}));
  const auto flat = output.detach().flatten();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    expect_near(flat[i].item<double>(), want.at("output").at(static_cast<std::size_t>(i)),
                "output " + std::to_string(i));
  }
  const auto loss = at::cross_entropy_loss(output, torch::tensor({0, 1, 2, 1}));
  expect_near(loss.item<double>(), want.at("loss"), "loss");
  loss.backward();
  const auto named = network->named_parameters();
  ASSERT_EQ(named.size(), want.at("parameters").size());
  for (std::size_t p = 0; p < named.size(); ++p) {
    const auto& row = want.at("parameters").at(p);
    EXPECT_EQ(named[p].key(), row.at("name").get<std::string>());
    EXPECT_EQ(named[p].value().sizes().vec(), row.at("shape").get<std::vector<std::int64_t>>()) << named[p].key();
    const auto gradient = named[p].value().grad().flatten();
    const auto weights = at::arange(gradient.numel(), at::kDouble).remainder(17) - 8;
    expect_near(gradient.sum().item<double>(), row.at("sum"), named[p].key() + " sum");
    expect_near((gradient * weights).sum().item<double>(), row.at("weighted"), named[p].key() + " weighted sum");
    for (std::int64_t i = 0; i < 3; ++i) {
      expect_near(gradient[i].item<double>(), row.at("first").at(static_cast<std::size_t>(i)), named[p].key());
    }
  }
}

TEST(Network, MlpHasPyTorchsOutputsAndGradients) {
  expect_equal_to_pytorch({.name = "mlp", .input_shape = {1, 2, 3}, .classes = 3, .hidden = {5, 4}});
}

TEST(Network, CnnHasPyTorchsOutputsAndGradients) {
  expect_equal_to_pytorch({.name = "cnn", .input_shape = {2, 4, 8}, .classes = 3});
}

TEST(Network, MlpWithoutHiddenLayersIsOneLinearLayer) {
  const auto network = make_network({.name = "mlp", .input_shape = {7}, .classes = 2, .hidden = {}});
  ASSERT_EQ(network->named_parameters().size(), 2U);
  EXPECT_EQ(network->named_parameters()[0].key(), "fc1.weight");
  EXPECT_EQ(parameter_count(*network), 7 * 2 + 2);
}

TEST(Network, InitialisationIsDrawnFromTheSeed) {
  const NetworkOptions options{.name = "cnn", .input_shape = {1, 8, 8}};
  const auto first_weight = [&](std::uint64_t seed) {
    torch::manual_seed(seed);
    return make_network(options)->parameters()[0].detach();
  };
  EXPECT_TRUE(at::equal(first_weight(1), first_weight(1)));
  EXPECT_FALSE(at::equal(first_weight(1), first_weight(2)));
}

TEST(Network, ABatchWithoutSamplesGivesNoRows) {
  for (const char* name : {"mlp", "cnn"}) {
    const auto network = make_network({.name = name, .input_shape = {1, 8, 8}, .classes = 10});
    EXPECT_EQ(network->forward(at::zeros({0, 1, 8, 8})).sizes(), (at::IntArrayRef{0, 10})) << name;
  }
}

TEST(Network, CnnSaysWhichShapeItWants) {
  const auto refused = [](std::vector<std::int64_t> shape) {
    return message_of(ErrorKind::kData, [&] { make_network({.name = "cnn", .input_shape = std::move(shape)}); });
  };
  EXPECT_HAS(refused({2}), "the samples are [2], the model cnn wants [channels, >= 4, >= 4]");
  EXPECT_HAS(refused({1, 3, 8}), "the samples are [1, 3, 8]");
}

TEST(Network, RefusesUnknownNamesAndDataWithoutClasses) {
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [] { make_network({.name = "vgg", .input_shape = {2}}); }),
             "model.name is 'vgg', want one of mlp, cnn, resnet18, ");
  EXPECT_HAS(message_of(ErrorKind::kData, [] { make_network({.name = "mlp", .input_shape = {2}, .classes = 0}); }),
             "no classes");
}

TEST(ConvertFloating, LeavesNumbersThatCountAsTheyAre) {
  torch::nn::BatchNorm1d norm(3);
  convert_floating(*norm, at::kDouble);
  EXPECT_EQ(norm->weight.scalar_type(), at::kDouble);
  EXPECT_EQ(norm->running_mean.scalar_type(), at::kDouble);
  EXPECT_EQ(norm->num_batches_tracked.scalar_type(), at::kLong);
  EXPECT_EQ(norm->forward(at::ones({2, 3}, at::kDouble)).scalar_type(), at::kDouble);
}

TEST(Adopt, KeepsAFrozenParameterFrozen) {
  torch::nn::Module from;
  from.register_parameter("frozen", at::ones({2}), /*requires_grad=*/false);
  from.register_parameter("trained", at::ones({2}));
  torch::nn::Module to;
  adopt(to, from);
  EXPECT_FALSE(to.named_parameters()["frozen"].requires_grad());
  EXPECT_TRUE(to.named_parameters()["trained"].requires_grad());
}

TEST(ParameterCount, CountsTiedWeightsOnceAndFrozenOnesNot) {
  torch::nn::Module module;
  const auto shared = module.register_parameter("a", at::zeros({3, 4}));
  module.register_parameter("b", shared);
  module.register_parameter("fixed", at::zeros({100}), /*requires_grad=*/false);
  module.register_buffer("buffer", at::zeros({100}));
  EXPECT_EQ(parameter_count(module), 12);
}

}  // namespace
}  // namespace lockstep
