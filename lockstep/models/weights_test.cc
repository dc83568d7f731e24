// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/weights.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/device/dtype.h"
#include "lockstep/format/torch/writer.h"
#include "lockstep/models/network.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

using Named = std::vector<std::pair<std::string, at::Tensor>>;

std::vector<TensorEntry> entries_of(const Named& tensors) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, dtype_name(tensor.scalar_type()), tensor.sizes().vec(), bytes_of(tensor)});
  }
  return entries;
}

std::filesystem::path written(const TemporaryFolder& folder, const Named& tensors) {
  const auto path = folder.path() / "weights.safetensors";
  write_safetensors_file(path, entries_of(tensors));
  return path;
}

Named weights_of(const torch::nn::Module& module) {
  Named out;
  for (const auto& item : module.named_parameters()) out.emplace_back(item.key(), item.value().detach());
  for (const auto& item : module.named_buffers()) out.emplace_back(item.key(), item.value());
  return out;
}

std::shared_ptr<Network> small_resnet(std::int64_t classes, std::uint64_t seed) {
  torch::manual_seed(seed);
  return make_network({.name = "resnet18", .input_shape = {3, 16, 16}, .classes = classes});
}

std::shared_ptr<Network> small_bert(std::uint64_t seed) {
  torch::manual_seed(seed);
  return make_network({.name = "bert",
                       .input_shape = {8},
                       .classes = 11,
                       .bert = {.width = 8, .layers = 1, .intermediate = 16, .max_positions = 8}});
}

void expect_same_weights(const torch::nn::Module& a, const torch::nn::Module& b) {
  const auto wanted = weights_of(b);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(at::equal(weights_of(a)[i].second, wanted[i].second)) << wanted[i].first;
  }
}

// A module with a linear layer from 2 to 3, and a buffer.
struct Small : torch::nn::Module {
  Small() {
    register_module("fc1", torch::nn::Linear(2, 3));
    register_buffer("seen", at::zeros({1}, at::kLong));
  }
};

TEST(LoadWeights, CopiesParametersAndBuffersByName) {
  const TemporaryFolder folder;
  Small module;
  const auto weight = at::arange(6, at::kFloat).view({3, 2});
  load_weights(
      module,
      written(folder, {{"seen", at::full({1}, 7, at::kLong)}, {"fc1.bias", at::ones({3})}, {"fc1.weight", weight}}));
  EXPECT_TRUE(at::equal(module.named_parameters()["fc1.weight"], weight));
  EXPECT_TRUE(at::equal(module.named_parameters()["fc1.bias"], at::ones({3})));
  EXPECT_EQ(module.named_buffers()["seen"].item<std::int64_t>(), 7);
  EXPECT_TRUE(module.named_parameters()["fc1.weight"].requires_grad());
}

TEST(LoadWeights, ConvertsBetweenFloatingTypes) {
  const TemporaryFolder folder;
  Small module;
  module.to(at::kDouble);
  load_weights(module, written(folder, {{"seen", at::zeros({1})},
                                        {"fc1.bias", at::full({3}, 0.5, at::kHalf)},
                                        {"fc1.weight", at::ones({3, 2})}}));
  EXPECT_TRUE(at::equal(module.named_parameters()["fc1.bias"], at::full({3}, 0.5, at::kDouble)));
}

TEST(LoadWeights, NamesEveryFaultAndLeavesTheModuleAsItWas) {
  const TemporaryFolder folder;
  Small module;
  const auto before = module.named_parameters()["fc1.weight"].detach().clone();
  const auto path = written(folder, {{"fc1.bias", at::ones({4})},
                                     {"fc1.weight", at::ones({3, 2})},
                                     {"head.weight", at::ones({1})},
                                     {"seen", at::zeros({1}, at::kFloat)}});
  const auto text = message_of(ErrorKind::kData, [&] { load_weights(module, path); });
  EXPECT_HAS(text, path.string() + " does not fit the model: ");
  EXPECT_HAS(text, "'fc1.bias' is [4], want [3]");
  EXPECT_HAS(text, "'seen' is F32, want I64");
  EXPECT_HAS(text, "'head.weight' is not in the model");
  EXPECT_TRUE(at::equal(module.named_parameters()["fc1.weight"], before));
  EXPECT_HAS(message_of(ErrorKind::kData,
                        [&] {
                          load_weights(module, written(folder, {{"x", at::ones({1})}}));
                        }),
             "'fc1.weight' is missing");
}

TEST(LoadWeights, NamesAFewOfManyFaults) {
  const TemporaryFolder folder;
  Small module;
  Named many;
  for (int i = 0; i < 20; ++i) many.emplace_back(std::string("x") + std::to_string(10 + i), at::ones({1}));
  const auto text = message_of(ErrorKind::kData, [&] { load_weights(module, written(folder, many)); });
  EXPECT_HAS(text, "; and 15 more");
  EXPECT_EQ(text.find("'x29'"), std::string::npos);
}

TEST(LoadWeights, ReadsAFileOfTorchSaveWhoseNamesHaveAPrefix) {
  const TemporaryFolder folder;
  const auto from = small_resnet(3, 1), to = small_resnet(3, 2);
  auto weights = weights_of(*from);
  for (auto& [name, tensor] : weights) name = "module." + name;
  write_torch_file(folder.path() / "weights.pt", entries_of(weights));
  EXPECT_EQ(load_weights(*to, folder.path() / "weights.pt").prefix, "module.");
  expect_same_weights(*to, *from);
}

TEST(LoadWeights, LeavesANewHeadAsItIs) {
  const TemporaryFolder folder;
  const auto from = small_resnet(5, 1), to = small_resnet(2, 2);
  const auto path = written(folder, weights_of(*from));
  const auto head = to->named_parameters()["fc.weight"].detach().clone();
  const auto text = message_of(ErrorKind::kData, [&] { load_weights(*to, path); });
  EXPECT_HAS(text, "'fc.weight' is [5, 512], want [2, 512]");
  EXPECT_HAS(text,
             "hint: to initialize these at random, as a new head for other classes: model.weights_except = [\"fc.*\"]");

  const auto report = load_weights(*to, path, {.except = {"fc.*"}});
  EXPECT_EQ(report.initial, (std::vector<std::string>{"fc.weight", "fc.bias"}));
  EXPECT_EQ(report.unused, (std::vector<std::string>{"fc.bias", "fc.weight"}));
  EXPECT_TRUE(at::equal(to->named_parameters()["fc.weight"], head));
  EXPECT_TRUE(at::equal(to->named_parameters()["conv1.weight"], from->named_parameters()["conv1.weight"]));
  EXPECT_TRUE(at::equal(to->named_buffers()["bn1.running_mean"], from->named_buffers()["bn1.running_mean"]));
}

TEST(LoadWeights, RefusesAPatternThatFitsNothing) {
  const TemporaryFolder folder;
  Small module;
  const auto path = written(folder, weights_of(module));
  const auto text = message_of(ErrorKind::kRecipe, [&] { load_weights(module, path, {.except = {"fc1.weigth"}}); });
  EXPECT_HAS(text, "model.weights_except: 'fc1.weigth' matches no tensor of the model or of " + path.string());
  EXPECT_HAS(text, "did you mean 'fc1.weight'?");
}

TEST(LoadWeights, TakesOneOfTiedWeightsForBoth) {
  const TemporaryFolder folder;
  const auto from = small_bert(1), to = small_bert(2);
  auto weights = weights_of(*from);
  std::erase_if(weights, [](const auto& each) { return each.first.starts_with("cls.predictions.decoder."); });
  load_weights(*to, written(folder, weights));
  expect_same_weights(*to, *from);
  const auto named = to->named_parameters();
  EXPECT_TRUE(named["cls.predictions.decoder.weight"].is_same(named["bert.embeddings.word_embeddings.weight"]));
}

TEST(LoadWeights, UnderstandsNamesOfOlderFiles) {
  const TemporaryFolder folder;
  const auto from = small_bert(1), to = small_bert(2);
  auto weights = weights_of(*from);
  for (auto& [name, tensor] : weights) {
    if (name.ends_with("LayerNorm.weight")) name.replace(name.size() - 6, 6, "gamma");
    if (name.ends_with("LayerNorm.bias")) name.replace(name.size() - 4, 4, "beta");
  }
  weights.emplace_back("bert.embeddings.position_ids", at::arange(8).unsqueeze(0));
  const auto report = load_weights(*to, written(folder, weights));
  EXPECT_EQ(report.unused, (std::vector<std::string>{"bert.embeddings.position_ids"}));
  expect_same_weights(*to, *from);

  const auto options = NetworkOptions{.name = "vit_b_16",
                                      .input_shape = {1, 8, 8},
                                      .vit = {.patch_size = 4, .layers = 1, .heads = 2, .width = 8, .mlp_dim = 16}};
  const auto old_vit = make_network(options), vit = make_network(options);
  weights = weights_of(*old_vit);
  for (auto& [name, tensor] : weights) {
    for (const auto& [now, before] : {std::pair{".mlp.0.", ".mlp.linear_1."}, std::pair{".mlp.3.", ".mlp.linear_2."}}) {
      if (const auto at = name.find(now); at != std::string::npos) name.replace(at, 7, before);
    }
  }
  load_weights(*vit, written(folder, weights));
  expect_same_weights(*vit, *old_vit);
}

TEST(LoadWeights, TakesFilesFromBeforeBatchNormCounted) {
  const TemporaryFolder folder;
  const auto from = small_resnet(2, 1), to = small_resnet(2, 2);
  auto weights = weights_of(*from);
  std::erase_if(weights, [](const auto& each) { return each.first.ends_with(".num_batches_tracked"); });
  EXPECT_EQ(load_weights(*to, written(folder, weights)).initial.size(), 20U);
  expect_same_weights(*to, *from);
}

TEST(Freeze, KeepsWhatFitsFromBeingTrained) {
  const auto resnet = small_resnet(4, 1);
  freeze(*resnet, {"conv1.*", "bn1.*", "layer*"});
  EXPECT_EQ(parameter_count(*resnet), 512 * 4 + 4);
  const auto bert = small_bert(1);
  freeze(*bert, {"cls.predictions.decoder.weight"});
  EXPECT_FALSE(bert->named_parameters()["bert.embeddings.word_embeddings.weight"].requires_grad());
}

TEST(Freeze, RefusesAPatternThatFitsNoParameterAndOneThatFitsAll) {
  Small module;
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { freeze(module, {"layer1.*"}); }),
             "model.freeze: 'layer1.*' matches no parameter of the model");
  EXPECT_HAS(message_of(ErrorKind::kRecipe, [&] { freeze(module, {"seen"}); }), "'seen' matches no parameter");
  EXPECT_HAS(message_of(ErrorKind::kRecipe,
                        [&] {
                          freeze(module, {"fc1.bias", "*.weight"});
                        }),
             "model.freeze leaves no parameter to train, want at least one");
  EXPECT_TRUE(module.named_parameters()["fc1.bias"].requires_grad());
}

}  // namespace
}  // namespace lockstep
