// SPDX-License-Identifier: Apache-2.0
// tests/golden/script/make.py wrote the models, and what Python makes of them.
#include "lockstep/models/script_network.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(__FILE__).parent_path() / "../../tests/golden/script" / name;
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

TEST(ScriptNetwork, RefusesAFileThatIsNone) {
  const testing::TemporaryFolder folder;
  EXPECT_HAS(refusal(ErrorKind::kIo, folder.path() / "none.pt"), "there is no file");
  write_whole(folder.path() / "text.pt", "no model");
  EXPECT_HAS(refusal(ErrorKind::kData, folder.path() / "text.pt"), "is no TorchScript model");
}

}  // namespace
}  // namespace lockstep
