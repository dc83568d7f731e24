// SPDX-License-Identifier: Apache-2.0
// Compares TorchScript models with Python. tests/golden/script/make.py wrote the models and their expected outputs.
#include "lockstep/models/script_network.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "tests/support/source_root.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

std::filesystem::path golden(const std::string& name) {
  return lockstep::testing::source_root() / "tests/golden/script" / name;
}

const NetworkOptions kDigits{.name = "script:FILE", .input_shape = {1, 8, 8}, .classes = 10};

at::Tensor images(std::int64_t count) {
  return at::sin(at::arange(count * 64, at::kFloat) * 0.37).view({count, 1, 8, 8});
}

TEST(ScriptNetwork, GivesPythonsOutputsUnderPythonsNames) {
  const auto wanted = nlohmann::json::parse(text_of_file(golden("outputs.json")));
  const auto network = make_script_network(golden("tied.pt"), kDigits);
  network->train(false);
  const auto outputs = at::tensor(wanted.at("eval").get<std::vector<double>>()).view({3, 10}).to(at::kFloat);
  EXPECT_TRUE(at::allclose(network->forward(images(3)), outputs, 1e-6, 1e-6));
  auto names = wanted.at("names").get<std::vector<std::string>>();
  names.push_back("mix_again.weight");  // Python names a tied weight once.
  const auto ours = network->named_parameters().keys();
  EXPECT_EQ(std::set(ours.begin(), ours.end()), std::set(names.begin(), names.end()));
  EXPECT_EQ(network->named_buffers().keys(), wanted.at("buffers").get<std::vector<std::string>>());
  EXPECT_EQ(parameter_count(*network), 4 * 9 + 4 + 4 + 4 + 256 * 16 + 16 + 16 * 16 + 16 * 10 + 10);
}

TEST(ScriptNetwork, ChangesItsModeAndItsWeights) {
  torch::manual_seed(5);
  const auto network = make_script_network(golden("tied.pt"), kDigits);
  const auto norm = network->named_buffers()["norm.running_mean"].clone();
  EXPECT_FALSE(at::equal(network->forward(images(8)), network->forward(images(8)))) << "dropout draws anew";
  EXPECT_FALSE(at::equal(network->named_buffers()["norm.running_mean"], norm));
  network->train(false);
  const auto before = network->forward(images(8));
  EXPECT_TRUE(at::equal(network->forward(images(8)), before));
  convert_floating(*network, at::kDouble);
  {
    const torch::NoGradGuard no_grad;
    network->named_parameters()["mix.weight"].mul_(2);
  }
  const auto after = network->forward(images(8).to(at::kDouble));
  EXPECT_EQ(after.scalar_type(), at::kDouble);
  EXPECT_GT((after - before).abs().max().item<double>(), 1e-3);
  EXPECT_TRUE(at::equal(network->named_parameters()["mix_again.weight"], network->named_parameters()["mix.weight"]));
}

std::string refusal(ErrorKind kind, const std::filesystem::path& file, const NetworkOptions& options = kDigits) {
  return message_of(kind, [&] { make_script_network(file, options); });
}

TEST(ScriptNetwork, RefusesWhatWouldTrainSilentlyWrong) {
  const auto eval = refusal(ErrorKind::kData, golden("traced-eval.pt"));
  EXPECT_HAS(eval, "is fixed to evaluation mode: the model was traced, and so would be trained as in evaluation");
  EXPECT_HAS(eval, "python/export_model.py");
  EXPECT_HAS(refusal(ErrorKind::kData, golden("traced-train.pt")), "would train while it is validated");
  EXPECT_HAS(refusal(ErrorKind::kData, golden("frozen.pt")), "has no parameter to train: it was frozen");
  EXPECT_NO_THROW(make_script_network(golden("traced-plain.pt"), kDigits)) << "it has no mode";
}

TEST(ScriptNetwork, ShowsBothShapesWhereTheyDisagree) {
  EXPECT_HAS(refusal(ErrorKind::kData, golden("seven.pt")),
             "makes [2, 7] of a batch of [2, 1, 8, 8], the data set's classes want [2, 10]");
  auto larger = kDigits;
  larger.input_shape = {1, 28, 28};
  EXPECT_HAS(refusal(ErrorKind::kData, golden("tied.pt"), larger), "cannot take a batch of [2, 1, 28, 28]");
}

// Returns the result for a model whose forward() is `body`. The model has a weight, a number and a list.
std::string why_not_recorded(const std::string& body) {
  torch::jit::Module model("Model");
  model.register_parameter("weight", at::ones({64, 10}).set_requires_grad(true), /*is_buffer=*/false);
  model.register_attribute("count", c10::IntType::get(), 0);
  model.register_attribute("past", c10::ListType::ofInts(), c10::List<std::int64_t>());
  model.define("def forward(self, x):\n  y = torch.mm(x.flatten(1), self.weight)\n" + body + "\n  return y\n");
  const testing::TemporaryFolder folder;
  model.save(folder.path() / "model.pt");
  return make_script_network(folder.path() / "model.pt", kDigits)->why_not_recorded();
}

TEST(ScriptNetwork, SaysWhyADeviceCannotRecordIt) {
  EXPECT_EQ(make_script_network(golden("tied.pt"), kDigits)->why_not_recorded(), "")
      << "convolution, BatchNorm, dropout";
  EXPECT_EQ(why_not_recorded("  if y.size(0) > 3:\n    y = y * 2"), "") << "a shape is the same in each step";
  EXPECT_EQ(why_not_recorded("  self.count = self.count + 1"),
            "of the model: it keeps 'count' from step to step, which a replay would not");
  EXPECT_EQ(why_not_recorded("  self.past.append(x.size(0))"),
            "of the model: it keeps 'past' from step to step, which a replay would not");
  EXPECT_EQ(why_not_recorded("  if bool(y.sum() > 0):\n    y = y * 2"),
            "of the model: its aten::Bool reads a tensor's numbers on the host");
  EXPECT_EQ(why_not_recorded("  y = y * torch.rand([1]).item()"),
            "of the model: its aten::item reads a tensor's numbers on the host");
  EXPECT_EQ(why_not_recorded("  y = y + torch.rand([10]).to(y.device, non_blocking=True)"),
            "of the model: its aten::to does not wait for what it copies");
}

TEST(ScriptNetwork, RefusesAFileThatIsNone) {
  const testing::TemporaryFolder folder;
  EXPECT_HAS(refusal(ErrorKind::kIo, folder.path() / "none.pt"), "there is no file");
  write_whole(folder.path() / "text.pt", "no model");
  EXPECT_HAS(refusal(ErrorKind::kData, folder.path() / "text.pt"), "is no TorchScript model");
}

// The fault: every model was tried with zeros in float, and had to return one row of classes for each sample.
TEST(ScriptNetwork, OfTextIsProbedWithIds) {
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "text.pt";
  torch::jit::Module script("text");
  script.register_parameter("weight", torch::ones({257, 257}, at::requires_grad()), /*is_buffer=*/false);
  script.define("def forward(self, ids):\n  return torch.embedding(self.weight, ids)\n");
  script.save(file.string());
  NetworkOptions options{.name = "script:FILE", .input_shape = {6}, .classes = 257, .takes_text = true};
  const auto network = make_script_network(file, options);
  EXPECT_EQ(network->forward(at::zeros({3, 6}, at::kLong)).sizes(), (std::vector<std::int64_t>{3, 6, 257}));
  options.classes = 300;
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { make_script_network(file, options); }),
             "makes [2, 6, 257] of a batch of ids I64 [2, 6], the data set's text wants [2, 6, 300]");
  options.takes_text = false;
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { make_script_network(file, options); }),
             "cannot take a batch of [2, 6]");
  EXPECT_HAS(
      message_of(
          ErrorKind::kData,
          [&] { make_script_network(golden("tied.pt"), {.input_shape = {6}, .classes = 257, .takes_text = true}); }),
      "cannot take a batch of ids I64 [2, 6]");
}

}  // namespace
}  // namespace lockstep
