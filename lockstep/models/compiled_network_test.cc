// SPDX-License-Identifier: Apache-2.0
#include "lockstep/models/compiled_network.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

// tests/ranks/python_model_test.py tests the behaviour of a compiled file.
struct Compiled {
  Compiled() {
    std::ofstream(file) << "no package at all";
    torch::manual_seed(3);
    plain = make_network({.name = "mlp", .input_shape = {4}, .classes = 3, .hidden = {5}});
    network = make_compiled_network(file, plain);
  }

  TemporaryFolder folder;
  std::filesystem::path file = folder.path() / "net.pt2";
  std::shared_ptr<Network> plain;
  std::shared_ptr<Network> network;
};

TEST(CompiledNetwork, HasThePlainOnesParametersUnderTheirNames) {
  const Compiled compiled;
  const auto ours = compiled.network->named_parameters(), theirs = compiled.plain->named_parameters();
  ASSERT_EQ(ours.keys(), theirs.keys());
  for (const auto& each : ours) EXPECT_TRUE(each.value().is_same(theirs[each.key()])) << each.key();
}

TEST(CompiledNetwork, EvaluatesAsThePlainOneWithoutTheFile) {
  const Compiled compiled;
  const auto input = at::rand({2, 4});
  compiled.network->eval();
  EXPECT_FALSE(compiled.plain->is_training());
  EXPECT_TRUE(at::equal(compiled.network->forward(input), compiled.plain->forward(input)));
  compiled.network->train(true);
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(compiled.network->forward(input), compiled.plain->forward(input)));
}

TEST(CompiledNetwork, RefusesAFileThatIsNone) {
  const Compiled compiled;
  const auto text = message_of(ErrorKind::kData, [&] { compiled.network->forward(at::rand({2, 4})); });
  EXPECT_HAS(text, "net.pt2' holds no compiled network");
  EXPECT_HAS(text, "hint: compile it anew with python/compile_model.py");
  EXPECT_HAS(
      message_of(ErrorKind::kIo, [&] { make_compiled_network(compiled.folder.path() / "none", compiled.plain); }),
      "model.compiled: there is no file");
}

}  // namespace
}  // namespace lockstep
