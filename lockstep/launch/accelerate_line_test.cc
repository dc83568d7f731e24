// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/accelerate_line.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/base/text.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

/// Splits `line` at its spaces and returns the command for the second of two nodes with four devices each.
std::string told(const std::string& line, AccelerateNode at = {2, 1, {"10.0.0.1", 12345}, 4, false}) {
  return joined(with_accelerate_nodes(split(line, ' '), at), " ");
}

constexpr auto kWho = "--machine_rank=1 --main_process_ip=10.0.0.1 --main_process_port=12345";

TEST(AccelerateNodes, AreToldOfEachOther) {
  EXPECT_EQ(told("accelerate launch train.py"),
            "accelerate launch --num_processes=8 --num_machines=2 --multi_gpu " + std::string(kWho) + " train.py");
  EXPECT_EQ(told("/env/bin/accelerate launch --mixed_precision bf16 train.py --num_machines 7"),
            "/env/bin/accelerate launch --num_processes=8 --num_machines=2 --multi_gpu " + std::string(kWho) +
                " --mixed_precision bf16 train.py --num_machines 7");
  EXPECT_EQ(told("python -m accelerate.commands.launch --use_fsdp train.py"),
            "python -m accelerate.commands.launch --num_processes=8 --num_machines=2 " + std::string(kWho) +
                " --use_fsdp train.py");
  EXPECT_TRUE(told("singularity exec i.sif bash setup.sh accelerate-launch t.py").ends_with("12345 t.py"));
}

TEST(AccelerateNodes, StartAsManyProcessesAsTheirOptionSaysOnEach) {
  const auto processes = [](const std::string& option) {
    const auto words = split(told("accelerate launch " + option + " t.py"), ' ');
    EXPECT_EQ(std::ranges::count(words, "--num_machines=2"), 1) << option;
    return words[words.size() - 2];
  };
  EXPECT_EQ(processes("--num_processes=2"), "--num_processes=4");
  EXPECT_EQ(processes("--num-processes 4"), "8");
  EXPECT_EQ(processes("--num_processes 8"), "8") << "all devices of both nodes";
  EXPECT_EQ(told("accelerate launch --num_processes=many t.py"),
            "accelerate launch " + std::string(kWho) + " --num_processes=many t.py");
}

TEST(AccelerateNodes, AreNotToldOfMachinesWhereThatWouldHarm) {
  EXPECT_EQ(told("accelerate launch --num_machines 2 t.py"), "accelerate launch --num_machines 2 t.py");
  EXPECT_EQ(told("accelerate launch --cpu t.py"), "accelerate launch --cpu t.py");
  EXPECT_EQ(told("accelerate launch --use_deepspeed t.py"),
            "accelerate launch --main_process_port=12345 --use_deepspeed t.py");
  EXPECT_EQ(told("accelerate launch --config_file a.yaml --num_processes=2 t.py"),
            "accelerate launch " + std::string(kWho) + " --config_file a.yaml --num_processes=2 t.py");
  EXPECT_EQ(told("accelerate launch --main_process_port 1 --machine_rank 0 --main_process_ip a t.py"),
            "accelerate launch --num_processes=8 --num_machines=2 --multi_gpu --main_process_port 1 --machine_rank 0 "
            "--main_process_ip a t.py");
  EXPECT_EQ(told("accelerate config"), "accelerate config");
  EXPECT_EQ(told("python accelerate.py"), "python accelerate.py");
  EXPECT_EQ(told("accelerate launch t.py", {1, 0, {"10.0.0.1", 12345}, 4, false}), "accelerate launch t.py");
}

TEST(AccelerateNodes, WithoutKnownDevicesAreToldWhereToMeet) {
  EXPECT_EQ(told("accelerate launch t.py", {2, 1, {"10.0.0.1", 12345}, 0, false}),
            "accelerate launch " + std::string(kWho) + " t.py");
}

TEST(AccelerateNodes, FindAConfigFileOfTheUsersOwn) {
  const testing::TemporaryFolder home;
  const Environment env{{"HOME", home.path().string()}};
  EXPECT_FALSE(has_accelerate_config(env));
  const auto folder = home.path() / ".cache/huggingface/accelerate";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "default_config.yaml") << "num_machines: 1\n";
  EXPECT_TRUE(has_accelerate_config(env));
  EXPECT_FALSE(has_accelerate_config({{"HOME", home.path().string()}, {"HF_HOME", "/none"}}));
  EXPECT_EQ(told("accelerate launch --num_processes 2 t.py", {2, 1, {"10.0.0.1", 12345}, 4, true}),
            "accelerate launch " + std::string(kWho) + " --num_processes 2 t.py");
}

}  // namespace
}  // namespace lockstep
