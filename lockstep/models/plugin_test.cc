// SPDX-License-Identifier: Apache-2.0
// tests/programs has the plugins.
#include "lockstep/models/plugin.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>

#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

const NetworkOptions kDigits{.name = "plugin:FILE", .input_shape = {1, 8, 8}, .classes = 10};

// ctest sets LOCKSTEP_BIN. If the test is started by hand, the plugins are in the folder of the test program.
std::filesystem::path built(const std::string& name) {
  const auto* folder = std::getenv("LOCKSTEP_BIN");
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (folder != nullptr ? std::filesystem::path(folder) : here) / name;
}

TEST(Plugin, MakesItsNetworkFromWhatTheDataSay) {
  const auto network = make_plugin_network(built("libplugin_net.so"), kDigits);
  EXPECT_EQ(network->named_parameters().keys(), (std::vector<std::string>{"fc.weight", "fc.bias"}));
  EXPECT_EQ(network->forward(at::zeros({3, 1, 8, 8})).sizes(), (std::vector<std::int64_t>{3, 10}));
  EXPECT_EQ(parameter_count(*network), 650);
}

TEST(Plugin, OfAnotherLibTorchIsRefusedBeforeItRuns) {
  const auto text =
      message_of(ErrorKind::kEnvironment, [] { make_plugin_network(built("libplugin_stranger.so"), kDigits); });
  EXPECT_HAS(text, std::string("was built with LibTorch 1.13.0, lockstep-train with ") + TORCH_VERSION);
}

TEST(Plugin, ThatIsNoneIsRefused) {
  const testing::TemporaryFolder folder;
  EXPECT_HAS(message_of(ErrorKind::kIo, [&] { make_plugin_network(folder.path() / "none.so", kDigits); }),
             "there is no file");
  write_whole(folder.path() / "text.so", "no library");
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { make_plugin_network(folder.path() / "text.so", kDigits); }),
             "cannot be loaded");
  EXPECT_HAS(
      message_of(ErrorKind::kEnvironment, [&] { make_plugin_network("/lib/x86_64-linux-gnu/libm.so.6", kDigits); }),
      "has no lockstep_plugin_facts: it is not a Lockstep plugin");
}

}  // namespace
}  // namespace lockstep
