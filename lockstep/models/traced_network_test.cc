// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/traced_network.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

std::shared_ptr<Network> network(const std::string& name, std::vector<std::int64_t> shape) {
  torch::manual_seed(3);
  return make_network({.name = name, .input_shape = std::move(shape), .classes = 3, .resnet = {.stem = "cifar"}});
}

std::pair<torch::jit::Module, nlohmann::json> loaded(const TracedNetwork& traced) {
  std::istringstream stream(traced.archive);
  torch::jit::ExtraFilesMap extra{{"facts.json", ""}};
  auto module = torch::jit::load(stream, std::nullopt, extra);
  return {module, nlohmann::json::parse(extra.at("facts.json"))};
}

TEST(TracedNetwork, ComputesWhatTheNetworkDoesFromItsParametersBuffersAndBatch) {
  const auto net = network("resnet18", {3, 8, 8});
  const auto batch = at::rand({4, 3, 8, 8});
  const auto [module, facts] = loaded(trace_network(*net, batch));
  EXPECT_EQ(facts.at("device"), "cpu");
  EXPECT_EQ(facts.at("batch").at("shape"), (std::vector<std::int64_t>{4, 3, 8, 8}));
  torch::jit::Stack inputs;
  const auto parameters = net->named_parameters();
  for (const auto& each : facts.at("parameters")) inputs.emplace_back(parameters[each.at("name").get<std::string>()]);
  std::vector<at::Tensor> counts;
  const auto buffers = net->named_buffers();
  for (const auto& each : facts.at("buffers")) {
    inputs.emplace_back(buffers[each.at("name").get<std::string>()].clone());
    if (each.at("dtype") == "I64") counts.push_back(inputs.back().toTensor());
  }
  inputs.emplace_back(batch);
  const auto before = counts.at(0).item<std::int64_t>();
  auto method = module.get_method("forward");
  EXPECT_TRUE(at::equal(method(inputs).toTensor(), net->forward(batch)));
  EXPECT_EQ(counts.at(0).item<std::int64_t>(), before + 1) << "BatchNorm's statistics are updated where they are given";
}

TEST(TracedNetwork, HasTheSameTextForTheSameNetworkAndAnotherForAnotherBatchOrFrozenWeights) {
  const auto text = [](std::int64_t samples, bool is_frozen) {
    const auto net = network("cnn", {1, 8, 8});
    if (is_frozen) net->parameters().front().set_requires_grad(false);
    return trace_network(*net, at::zeros({samples, 1, 8, 8})).text;
  };
  EXPECT_EQ(text(4, false), text(4, false));
  EXPECT_NE(text(4, false), text(5, false));
  EXPECT_NE(text(4, false), text(4, true));
}

TEST(TracedNetwork, CountsTiedWeightsOnce) {
  const auto net = make_network({.name = "bert", .input_shape = {6}, .takes_text = true, .bert = {.vocabulary = 11}});
  const auto [module, facts] = loaded(trace_network(*net, at::zeros({2, 6}, at::kLong)));
  EXPECT_EQ(facts.at("batch").at("dtype"), "I64");
  EXPECT_LT(facts.at("parameters").size(), net->named_parameters().size());
  EXPECT_EQ(module.get_method("forward").num_inputs(),
            1 + facts.at("parameters").size() + facts.at("buffers").size() + 1);
}

TEST(TracedNetwork, ANetworkThatFailsSaysWhy) {
  struct Failing : Network {
    at::Tensor forward(const at::Tensor&) override { throw std::runtime_error("no such layer"); }
  } failing;
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { trace_network(failing, at::zeros({1})); }),
             "cannot be recorded: no such layer");
}

}  // namespace
}  // namespace lockstep
