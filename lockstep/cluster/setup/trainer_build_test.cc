// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/setup/trainer_build.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/file.h"
#include "lockstep/cluster/setup/trainer_source.h"
#include "lockstep/launch/process.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
namespace fs = std::filesystem;

constexpr const char* kSaid =
    R"({"folder": "/env/lib/torch", "version": "2.11.0+cu130", "abi": "1", "device": "cuda-13.0", "headers": true})";

/// Makes a folder of a PyTorch with the files that the probe reads.
void make_torch(const fs::path& site, const std::string& version) {
  const auto torch = site / "torch";
  fs::create_directories(torch / "include" / "torch");
  fs::create_directories(torch / "share" / "cmake" / "Torch");
  write_whole(torch / "__init__.py", "raise ImportError('not to be imported')\n", false);
  write_whole(torch / "version.py", "__version__ = '" + version + "'\ncuda = None\nhip = '6.4.2'\n", false);
  write_whole(torch / "share/cmake/Torch/TorchConfig.cmake", "set(TORCH_CXX_FLAGS \"-D_GLIBCXX_USE_CXX11_ABI=1\")\n",
              false);
}

TrainerBuild made_build(const Environment& env, const TorchInstall& torch) {
  const auto folder = builds_folder(env) / build_key(torch, "0.1.0");
  TrainerBuild build{.program = program_of_build(folder), .torch = torch};
  fs::create_directories(build.program.parent_path());
  write_whole(build.program, "", false);
  fs::permissions(build.program, fs::perms::owner_all);
  keep_build(build);
  return build;
}

TEST(TorchProbe, ReadsWhatAPyTorchIsWithoutImportingIt) {
  const testing::TemporaryFolder folder;
  make_torch(folder.path(), "2.9.1+rocm6.4");
  auto variables = Environment::of_process().all();
  variables["PYTHONPATH"] = folder.path().string();
  const auto said = run_process({"python3", "-c", std::string(torch_probe())}, Environment(std::move(variables)));
  const auto torch = torch_in(said.output, "python3");
  EXPECT_EQ(torch.folder, folder.path() / "torch");
  EXPECT_EQ(torch.version, "2.9.1+rocm6.4");
  EXPECT_EQ(torch.abi, "1");
  EXPECT_EQ(torch.device, "rocm-6.4.2");
}

TEST(TorchProbe, RefusesAPythonWithoutPyTorchAndOneThatIsTooOld) {
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [] { torch_in("{}\n", "/usr/bin/python3"); }),
             "'/usr/bin/python3' has no PyTorch\n  hint: name one that has: lockstep setup --python PATH");
  EXPECT_HAS(
      message_of(ErrorKind::kEnvironment,
                 [] { torch_in(R"({"folder": "/t", "version": "2.6.0", "abi": "0", "device": "cpu"})", "python3"); }),
      "is 2.6.0, want 2.7 or newer");
  EXPECT_HAS(
      message_of(ErrorKind::kEnvironment,
                 [] { torch_in(R"({"folder": "/t", "version": "2.8.0", "abi": "1", "device": "cpu"})", "python3"); }),
      "has no C++ headers");
}

TEST(TrainerBuilds, AreKeptByVersionAbiDeviceAndImage) {
  auto torch = torch_in(kSaid, "python3");
  EXPECT_EQ(build_key(torch, "0.1.0"), "0.1.0-torch-2.11.0+cu130-abi1-cuda-13.0");
  torch.container = "/images/my torch.sif";
  EXPECT_EQ(build_key(torch, "0.1.0"), "0.1.0-torch-2.11.0+cu130-abi1-cuda-13.0-in-my-torch");
}

TEST(TrainerBuilds, AreChosenByTheActiveEnvironmentOrTheImage) {
  const testing::TemporaryFolder cache;
  const Environment env{{"LOCKSTEP_CACHE", cache.path().string()}};
  EXPECT_FALSE(chosen_build(env, "0.1.0"));
  auto torch = torch_in(kSaid, "python3");
  const auto mine = made_build(env, torch);
  torch.version = "2.9.0";
  torch.folder = "/other/lib/torch";
  const auto other = made_build(env, torch);
  torch.container = "/images/a.sif";
  const auto inside = made_build(env, torch);
  const auto chosen = [&](Environment::Map more, const std::string& image = {}) {
    more["LOCKSTEP_CACHE"] = cache.path().string();
    return chosen_build(Environment(std::move(more)), "0.1.0", image);
  };
  EXPECT_EQ(chosen({{"VIRTUAL_ENV", "/env"}})->program, mine.program);
  EXPECT_EQ(chosen({{"CONDA_PREFIX", "/other"}})->program, other.program);
  EXPECT_EQ(chosen({}, "/images/a.sif")->program, inside.program);
  EXPECT_EQ(chosen({{"APPTAINER_CONTAINER", "/images/a.sif"}})->program, inside.program);
  EXPECT_FALSE(chosen({}, "/images/b.sif"));
  EXPECT_FALSE(chosen_build(env, "0.2.0")) << "one of another version";
}

TEST(TrainerSource, IsTheTreeOrTheBundleThatIsNamed) {
  const testing::TemporaryFolder folder;
  const auto tree = folder.path() / "lockstep-0.1.0";
  fs::create_directories(tree);
  write_whole(tree / "layers.txt", "", false);
  write_whole(tree / "CMakeLists.txt", "", false);
  const auto cache = (folder.path() / "cache").string();
  EXPECT_EQ(source_tree("/opt/bin/lockstep", "0.1.0", Environment{{"LOCKSTEP_SOURCE", tree.string()}}), tree);
  const auto bundle = (folder.path() / "lockstep-0.1.0.tar.gz").string();
  run_process({"tar", "-czf", bundle, "-C", folder.path().string(), "lockstep-0.1.0"}, Environment::of_process());
  const auto env = [&](Environment::Map more) {
    more["LOCKSTEP_CACHE"] = cache;
    more["PATH"] = "/usr/bin:/bin";
    return Environment(std::move(more));
  };
  const auto unpacked = fs::path(cache) / "source" / "lockstep-0.1.0";
  EXPECT_EQ(source_tree("/opt/bin/lockstep", "0.1.0", env({{"LOCKSTEP_SOURCE", bundle}})), unpacked);
  EXPECT_EQ(source_tree(folder.path() / "lockstep", "0.1.0", env({})), unpacked) << "the bundle beside the program";
  EXPECT_HAS(message_of(ErrorKind::kEnvironment, [&] { source_tree("/opt/bin/lockstep", "0.1.0", env({})); }),
             "there are no sources of Lockstep: no lockstep-0.1.0.tar.gz beside '/opt/bin/lockstep'");
  EXPECT_HAS(message_of(ErrorKind::kEnvironment,
                        [&] {
                          source_tree("/opt/bin/lockstep", "0.1.0", env({{"LOCKSTEP_SOURCE", "/no"}}));
                        }),
             "LOCKSTEP_SOURCE is '/no', want Lockstep's source folder or bundle");
}

TEST(TrainerSource, BuildsWithWhatIsThereAndSaysWhatIsNot) {
  const auto script = build_script("/src", "/a build", "/env/torch", 4);
  const auto said = run_process({"/bin/bash", "-c", script}, Environment{{"PATH", "/no/such"}});
  EXPECT_EQ(said.exit_code, 90);
  EXPECT_EQ(said.output, "there is no cmake\n");
  EXPECT_HAS(script, "-B '/a build'");
  EXPECT_EQ(script.find("LOCKSTEP_PYTHON"), std::string::npos);
  EXPECT_HAS(build_script("/src", "/a build", "/env/torch", 4, "/my env/bin/python"),
             "-DLOCKSTEP_PYTHON='/my env/bin/python'");
}

}  // namespace
}  // namespace lockstep
