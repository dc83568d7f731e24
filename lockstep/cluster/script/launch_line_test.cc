// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/launch_line.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::optional<LaunchLine> read(const std::string& text) {
  const auto shell = read_shell(text);
  return shell.commands.empty() ? std::nullopt : read_launch(shell.commands.front(), {});
}

TEST(LaunchLine, TakesSrunAContainerAndPythonApart) {
  const auto launch = read("time srun -n 4 -c2 singularity exec --nv -B /a:/b,/c image.sif python -u train.py");
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->srun.value("ntasks"), "4");
  EXPECT_EQ(launch->container.image, "image.sif");
  EXPECT_EQ(launch->container.binds, (std::vector<std::string>{"/a:/b", "/c"}));
  EXPECT_EQ(launch->program_name(), "python");
  EXPECT_TRUE(launch->is_python());
}

TEST(LaunchLine, ReadsTheFlagsOfTorchrunAndAccelerate) {
  for (const auto* text :
       {"torchrun --standalone --nproc_per_node 4 a.py", "python -u -m torch.distributed.run --nproc-per-node=4 a.py",
        "accelerate launch --multi_gpu --nproc_per_node=4 a.py"}) {
    const auto launch = read(text);
    ASSERT_TRUE(launch && launch->node_launcher) << text;
    EXPECT_EQ(launch->node_launcher->flags.at("nproc-per-node").value.text, "4") << text;
    EXPECT_EQ(launch->program_name(), "a.py") << text;
  }
}

TEST(LaunchLine, ReadsMpirunAndVariables) {
  const auto launch = read("A=1 env B=2 mpirun -np 8 --map-by ppr:4:node -x PATH ./solver in.txt");
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->mpirun_tasks, 8);
  EXPECT_EQ(launch->variables, (std::vector<std::string>{"A=1", "B=2"}));
  EXPECT_EQ(launch->program_name(), "solver");
}

TEST(LaunchLine, FindsTheShellTextOrScriptOfATask) {
  EXPECT_EQ(read("srun bash -lc 'a; b'")->shell_text()->value.text, "a; b");
  EXPECT_EQ(read("srun bash -x run.sh")->shell_script(), "run.sh");
  EXPECT_EQ(read("srun ./run.sh a")->shell_script(), "./run.sh");
  EXPECT_FALSE(read("srun python a.py")->shell_script());
}

TEST(LaunchLine, LeavesOtherCommandsAlone) {
  EXPECT_FALSE(read("mkdir -p logs"));
  EXPECT_FALSE(read("python -c 'print(1)'"));
  EXPECT_FALSE(read("echo srun python"));
  EXPECT_TRUE(read("srun nvidia-smi")->is_utility());
  EXPECT_TRUE(read("python -m mypackage.train")->is_python());
}

}  // namespace
}  // namespace lockstep
