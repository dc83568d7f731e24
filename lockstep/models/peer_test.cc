// SPDX-License-Identifier: Apache-2.0
// Compares models with those of torchvision and Hugging Face. tests/golden/models/make_peers.py wrote their numbers.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/device/dtype.h"
#include "lockstep/models/network.h"
#include "lockstep/models/weights.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;
using testing::message_of;

constexpr std::int64_t kClasses = 5;
constexpr double kRate = 0.01;
constexpr std::int64_t kPrime = 1000003;

std::filesystem::path golden_folder() { return lockstep::testing::source_root() / "tests/golden/models"; }

Json golden(const std::string& file) { return Json::parse(text_of_file(golden_folder() / file)); }

at::Tensor whole_numbers(std::int64_t count, std::int64_t number) {
  auto out = at::empty({count}, at::kLong);
  auto* values = out.data_ptr<std::int64_t>();
  for (std::int64_t k = 0; k < count; ++k) {
    values[k] = (k * k % kPrime * 7919 + k * 104729 + number * 15485863) % kPrime;
  }
  return out;
}

at::Tensor numbers(at::IntArrayRef shape, std::int64_t number) {
  return whole_numbers(c10::multiply_integers(shape), number).to(at::kDouble).div_(kPrime).sub_(0.5).view(shape);
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// As filled() in make_peers.py.
at::Tensor filled(const std::string& name, at::IntArrayRef shape, std::int64_t number, const std::string& last_norm) {
  auto v = numbers(shape, number);
  const auto inputs = static_cast<double>(c10::multiply_integers(shape.slice(1)));
  if (shape.size() == 4) return v.mul_(std::sqrt(24 / inputs));
  if (shape.size() > 1) return v.mul_(std::sqrt(12 / static_cast<double>(shape.back())));
  if (has(name, last_norm)) return v.mul_(0.2).add_(name.ends_with("weight") ? 0.2 : 0.0);
  const bool is_norm_of_channels = has(name, "bn") || has(name, "downsample");
  if (name.ends_with("bias")) return v.mul_(0.4).add_(is_norm_of_channels ? 0.8 : 0.0);
  return v.mul_(0.2).add_(is_norm_of_channels && !has(name, ".bn2.") ? 0.4 : 0.8);
}

// Returns each tensor once, by its first name, as Python's named_parameters() does.
std::vector<std::pair<std::string, at::Tensor>> parameters_of(const Network& network) {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const auto& item : network.named_parameters()) {
    if (std::ranges::none_of(out, [&](const auto& each) { return each.second.is_same(item.value()); })) {
      out.emplace_back(item.key(), item.value());
    }
  }
  return out;
}

void fill(Network& network, const std::string& last_norm) {
  const torch::NoGradGuard no_grad;
  std::int64_t number = 0;
  for (auto& [name, parameter] : parameters_of(network)) {
    parameter.copy_(filled(name, parameter.sizes(), number++, last_norm));
  }
  number = 5000;
  for (auto& item : network.named_buffers()) {
    if (item.value().is_floating_point()) {
      item.value().copy_(numbers(item.value().sizes(), number) + (item.key().ends_with("running_var") ? 1 : 0));
    }
    ++number;
  }
}

std::vector<double> doubles(const at::Tensor& tensor) {
  const auto flat = tensor.detach().to(at::kDouble).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

// As row() in make_peers.py.
std::vector<double> row(const at::Tensor& tensor, std::int64_t number, std::int64_t first) {
  const auto flat = tensor.detach().to(at::kDouble).flatten();
  std::vector<double> out = {flat.norm().item<double>(), flat.dot(numbers({flat.numel()}, number)).item<double>()};
  for (std::int64_t i = 0; i < std::min(first, flat.numel()); ++i) out.push_back(flat[i].item<double>());
  return out;
}

void expect_near(const std::vector<double>& ours, const std::vector<double>& wanted, double tolerance,
                 const std::string& what) {
  ASSERT_GE(ours.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(ours[i], wanted[i], tolerance) << what << ", number " << i;
}

double largest(const std::vector<double>& values) {
  double out = 0;
  for (const auto value : values) out = std::max(out, std::abs(value));
  return out;
}

std::vector<std::string> entries_of(const torch::nn::Module& module) {
  std::vector<std::string> out;
  const auto add = [&](const auto& named) {
    for (const auto& item : named) out.push_back(item.key() + " " + shape_text(item.value().sizes()));
  };
  add(module.named_parameters());
  add(module.named_buffers());
  std::ranges::sort(out);
  return out;
}

void expect_entries(const torch::nn::Module& module, const Json& wanted) {
  auto sorted = wanted.get<std::vector<std::string>>();
  std::ranges::sort(sorted);
  EXPECT_EQ(entries_of(module), sorted);
}

struct Case {
  NetworkOptions options;
  std::string last_norm = "-";
  std::function<at::Tensor(std::int64_t number, at::ScalarType type)> batch;
  std::function<at::Tensor(const at::Tensor& output)> loss;
};

Case of_images(NetworkOptions options, std::int64_t samples, const std::string& last_norm) {
  auto shape = options.input_shape;
  shape.insert(shape.begin(), samples);
  return {std::move(options), last_norm,
          [shape](std::int64_t number, at::ScalarType type) { return numbers(shape, number).mul_(4).to(type); },
          [samples](const at::Tensor& output) {
            return at::cross_entropy_loss(output, at::arange(samples).remainder(kClasses));
          }};
}

Case of_resnet(const std::string& name, const std::string& stem, std::int64_t size) {
  const bool is_deep = name != "resnet18" && name != "resnet34";
  return of_images({.name = name, .input_shape = {3, size, size}, .classes = kClasses, .resnet = {.stem = stem}}, 2,
                   is_deep ? ".bn3." : ".bn2.");
}

NetworkOptions vit_options() {
  return {.name = "vit_b_16",
          .input_shape = {3, 32, 32},
          .classes = kClasses,
          .vit = {.patch_size = 8, .layers = 2, .heads = 4, .width = 32, .mlp_dim = 64}};
}

NetworkOptions bert_options() {
  return {.name = "bert",
          .input_shape = {20},
          .classes = 37,
          .bert = {.width = 32,
                   .layers = 2,
                   .heads = 4,
                   .intermediate = 48,
                   .max_positions = 24,
                   .dropout = 0,
                   .attention_dropout = 0}};
}

at::Tensor ids(std::int64_t number) { return whole_numbers(60, number).remainder_(37).view({3, 20}); }

void expect_step(Network& network, const Case& test, const at::Tensor& batch, const Json& wanted, double tolerance) {
  const auto output = network.forward(batch);
  const auto outputs = wanted.at("output").get<std::vector<double>>();
  expect_near(doubles(output), outputs, tolerance * largest(outputs), "outputs");
  const auto loss = test.loss(output);
  expect_near({loss.item<double>()}, {wanted.at("loss")}, tolerance * wanted.at("loss").get<double>(), "loss");
  network.zero_grad();
  loss.backward();
  const auto parameters = parameters_of(network);
  const auto rows = wanted.at("gradients").get<std::vector<std::vector<double>>>();
  ASSERT_EQ(parameters.size(), rows.size());
  double floor = 0;
  // Some gradients are zero except for rounding, such as that of attention's key bias. Their error is compared with the
  // size of the other gradients.
  for (const auto& each : rows) floor = std::max(floor, 1e-2 * each[0]);
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    const auto ours =
        row(parameter.grad(), static_cast<std::int64_t>(i), static_cast<std::int64_t>(rows[i].size()) - 2);
    expect_near(ours, rows[i], tolerance * std::max(rows[i][0], floor), "gradient of " + name);
    at::Tensor(parameter).sub_(parameter.grad(), kRate);
  }
}

void expect_peer(const Case& test, const Json& wanted, at::ScalarType type, double tolerance) {
  const auto network = make_network(test.options);
  expect_entries(*network, wanted.at("entries"));
  // The model is made in float32 first, as in make_peers.py. So both types start from the same weights.
  fill(*network, test.last_norm);
  convert_floating(*network, type);
  const auto batch = test.batch(wanted.at("input_number"), type);
  network->eval();
  const auto evaluated = wanted.at("eval").get<std::vector<double>>();
  expect_near(doubles(network->forward(batch)), evaluated, tolerance * largest(evaluated), "outputs in evaluation");
  network->train();
  {
    SCOPED_TRACE("the first step");
    expect_step(*network, test, batch, wanted.at("first"), tolerance);
  }
  {
    SCOPED_TRACE("the second step");
    expect_step(*network, test, batch, wanted.at("second"), tolerance);
  }
  std::int64_t number = 0;
  std::size_t found = 0;
  for (const auto& item : network->named_buffers()) {
    if (item.value().is_floating_point()) {
      const auto values = wanted.at("buffers").at(found++).get<std::vector<double>>();
      expect_near(row(item.value(), number, 0), values, tolerance * values[0], item.key());
    } else {
      EXPECT_EQ(item.value().item<std::int64_t>(), 2) << item.key();
    }
    ++number;
  }
}

void expect_peer(const Case& test, const std::string& file, const std::string& name) {
  const auto wanted = golden(file).at(name);
  SCOPED_TRACE(name);
  // Small tensors gain nothing from more threads, and lose much if tests run side by side.
  at::set_num_threads(1);
  expect_peer(test, wanted, at::kDouble, 1e-10);
  expect_peer(test, wanted, at::kFloat, 1e-5);
}

TEST(ResNet, Resnet18IsTorchvisions) {
  expect_peer(of_resnet("resnet18", "imagenet", 64), "resnet.json", "resnet18-imagenet");
}
TEST(ResNet, TheSmallStemIsTorchvisionsWithThatConvolution) {
  expect_peer(of_resnet("resnet18", "cifar", 16), "resnet.json", "resnet18-cifar");
}
TEST(ResNet, Resnet34IsTorchvisions) {
  expect_peer(of_resnet("resnet34", "imagenet", 64), "resnet.json", "resnet34-imagenet");
}
TEST(ResNet, Resnet50IsTorchvisions) {
  expect_peer(of_resnet("resnet50", "imagenet", 64), "resnet.json", "resnet50-imagenet");
}
TEST(ResNet, Resnet101IsTorchvisions) {
  expect_peer(of_resnet("resnet101", "imagenet", 64), "resnet.json", "resnet101-imagenet");
}
TEST(ResNet, Resnet152IsTorchvisions) {
  expect_peer(of_resnet("resnet152", "cifar", 16), "resnet.json", "resnet152-cifar");
}

TEST(Vit, IsTorchvisions) { expect_peer(of_images(vit_options(), 3, "-"), "transformers.json", "vit"); }

TEST(Bert, IsHuggingFaces) {
  const auto wanted = golden("transformers.json").at("bert");
  const auto target = at::where((at::arange(60).view({3, 20}) % 3).eq(0),
                                ids(wanted.at("input_number").get<std::int64_t>() + 1), at::full({}, -100, at::kLong));
  expect_peer(
      {bert_options(), "-", [](std::int64_t number, at::ScalarType) { return ids(number); },
       [target](const at::Tensor& output) { return at::cross_entropy_loss(output.flatten(0, 1), target.flatten()); }},
      "transformers.json", "bert");
}

TEST(Network, DefaultsAreThePublishedModels) {
  const auto names = golden("names.json");
  expect_entries(*make_network({.name = "vit_b_16", .input_shape = {3, 224, 224}, .classes = 1000}),
                 names.at("vit_b_16"));
  expect_entries(*make_network({.name = "bert", .input_shape = {128}, .classes = 257}), names.at("bert"));
}

TEST(Network, TheSameSeedGivesTorchvisionsInitialWeights) {
  const auto wanted = golden("initial.json");
  const auto expect_initial = [&](const std::string& name, const NetworkOptions& options) {
    torch::manual_seed(7);
    const auto parameters = parameters_of(*make_network(options));
    ASSERT_EQ(parameters.size(), wanted.at(name).size());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto values = wanted.at(name).at(i).get<std::vector<double>>();
      expect_near(row(parameters[i].second, static_cast<std::int64_t>(i), 0), values, 1e-6 * values[0],
                  name + " " + parameters[i].first);
    }
  };
  expect_initial("resnet18", {.name = "resnet18", .input_shape = {3, 64, 64}, .classes = kClasses});
  expect_initial("resnet50", {.name = "resnet50", .input_shape = {3, 64, 64}, .classes = kClasses});
  expect_initial("vit", vit_options());
}

TEST(Bert, StartsAsHuggingFacesDoes) {
  torch::manual_seed(1);
  const auto network = make_network({.name = "bert", .input_shape = {128}, .classes = 257});
  for (const auto& [name, parameter] : parameters_of(*network)) {
    if (parameter.dim() == 1) {
      const double constant = name.ends_with("LayerNorm.weight") ? 1 : 0;
      EXPECT_TRUE(parameter.eq(constant).all().item<bool>()) << name;
    } else if (parameter.numel() > 1000) {
      EXPECT_NEAR(parameter.std().item<double>(), 0.02, 0.0005) << name;
      EXPECT_NEAR(parameter.mean().item<double>(), 0, 0.0005) << name;
      // The numbers must come from a normal distribution, and not from a uniform one with the same width.
      EXPECT_GT(parameter.abs().max().item<double>(), 0.06) << name;
    }
  }
}

TEST(ResNet, ZeroInitResidualStartsEachBlockAsAnIdentity) {
  const auto network =
      make_network({.name = "resnet50", .input_shape = {3, 16, 16}, .resnet = {.zero_init_residual = true}});
  for (const auto& [name, parameter] : parameters_of(*network)) {
    if (!name.ends_with("weight") || parameter.dim() > 1) continue;
    EXPECT_EQ(parameter.abs().max().item<double>(), has(name, "bn3") ? 0 : 1) << name;
  }
}

TEST(Network, TakesOtherChannelsAndClasses) {
  const auto grey =
      make_network({.name = "resnet18", .input_shape = {1, 28, 28}, .classes = 3, .resnet = {.stem = "cifar"}});
  EXPECT_EQ(grey->forward(at::ones({2, 1, 28, 28})).sizes(), (at::IntArrayRef{2, 3}));
  auto options = vit_options();
  options.input_shape[0] = 2;
  EXPECT_EQ(make_network(options)->forward(at::ones({2, 2, 32, 32})).sizes(), (at::IntArrayRef{2, kClasses}));
}

TEST(Network, DropoutActsInTrainingAlone) {
  auto vit = vit_options();
  vit.vit.dropout = vit.vit.attention_dropout = 0.5;
  auto bert = bert_options();
  bert.bert.dropout = bert.bert.attention_dropout = 0.5;
  for (const auto& options : {vit, bert}) {
    const auto network = make_network(options);
    fill(*network, "-");
    const auto input = options.name == "bert" ? ids(1) : at::ones({2, 3, 32, 32});
    EXPECT_FALSE(at::equal(network->forward(input), network->forward(input))) << options.name;
    network->eval();
    EXPECT_TRUE(at::equal(network->forward(input), network->forward(input))) << options.name;
  }
}

TEST(LoadWeights, TakesFilesOfTorchvisionAndHuggingFace) {
  const auto wanted = golden("files.json");
  auto vit = vit_options();
  vit.input_shape = {3, 8, 8};
  vit.vit = {.patch_size = 4, .layers = 1, .heads = 2, .width = 8, .mlp_dim = 16};
  auto bert = bert_options();
  bert.bert = {.width = 8, .layers = 1, .heads = 2, .intermediate = 16, .max_positions = 20};
  const auto expect_file = [&](const NetworkOptions& options, const char* file, const at::Tensor& input,
                               const Json& outputs) {
    const auto network = make_network(options);
    load_weights(*network, golden_folder() / "files" / file);
    network->eval();
    const auto values = outputs.get<std::vector<double>>();
    expect_near(doubles(network->forward(input)), values, 1e-5 * largest(values), file);
  };
  expect_file(vit, "torchvision_vit.pt", numbers({2, 3, 8, 8}, 1).mul_(4).to(at::kFloat), wanted.at("vit"));
  expect_file(bert, "hugging_face_bert", ids(1), wanted.at("bert"));
}

std::string refused(ErrorKind kind, const NetworkOptions& options) {
  return message_of(kind, [&] { make_network(options); });
}

TEST(Network, SaysWhichDataItWants) {
  EXPECT_HAS(refused(ErrorKind::kData, {.name = "resnet18", .input_shape = {784}}),
             "the samples are [784], the model resnet18 wants [channels, height, width]");
  EXPECT_HAS(refused(ErrorKind::kData, {.name = "vit_b_16", .input_shape = {3, 32, 48}}),
             "the samples are [3, 32, 48], the model vit_b_16 wants [channels, size, size] with a size in whole "
             "patches of 16");
  EXPECT_HAS(refused(ErrorKind::kData, {.name = "vit_b_16", .input_shape = {3, 40, 40}}), "[3, 40, 40]");
  EXPECT_HAS(refused(ErrorKind::kData, {.name = "bert", .input_shape = {1024}, .classes = 257}),
             "the samples are [1024], the model bert wants ids in [<= 512]");
  auto options = bert_options();
  EXPECT_HAS(message_of(ErrorKind::kData,
                        [&] {
                          make_network(options)->forward(at::zeros({1, 25}, at::kLong));
                        }),
             "a batch of ids is [1, 25], the model bert wants [samples, <= 24]");
}

TEST(Network, RefusesSettingsOutOfRange) {
  EXPECT_HAS(refused(ErrorKind::kRecipe, {.name = "resnet18", .input_shape = {3, 8, 8}, .resnet = {.stem = "tiny"}}),
             "model.stem is 'tiny', want imagenet or cifar");
  auto options = bert_options();
  options.bert.heads = 5;
  EXPECT_HAS(refused(ErrorKind::kRecipe, options), "model.heads is 5, want one that divides model.width = 32");
  options = bert_options();
  options.bert.vocabulary = 30;
  EXPECT_HAS(refused(ErrorKind::kRecipe, options),
             "model.vocabulary is 30, the data have 37 ids, want at least as many");
  options = vit_options();
  options.vit.layers = 0;
  EXPECT_HAS(refused(ErrorKind::kRecipe, options), "model.layers is 0, want at least 1");
  options = vit_options();
  options.vit.dropout = 1;
  EXPECT_HAS(refused(ErrorKind::kRecipe, options), "model.dropout is 1, want 0 or more and less than 1");
}

}  // namespace
}  // namespace lockstep
