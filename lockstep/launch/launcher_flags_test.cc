// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/launcher_flags.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

TEST(LauncherOptions, AreNamedAlikeWithDashesAndUnderscores) {
  EXPECT_EQ(launcher_option("--multi_gpu"), "multi-gpu");
  EXPECT_EQ(launcher_option("--num-processes=2_3"), "num-processes");
  EXPECT_EQ(launcher_option("-m"), "m");
  EXPECT_EQ(launcher_option("train.py"), "");
  EXPECT_EQ(launcher_option("--"), "");
  EXPECT_EQ(launcher_option(""), "");
}

TEST(LauncherOptions, EndWhereTheProgramBegins) {
  const auto program = [](const std::vector<std::string>& words) { return launcher_options_end(words, 0); };
  EXPECT_EQ(program({"--nnodes", "2", "--standalone", "--nproc-per-node=4", "t.py", "--lr", "3"}), 4U);
  EXPECT_EQ(program({"--debug", "-m", "pkg.train"}), 2U);
  EXPECT_EQ(program({"--enable_cpu_affinity", "t.py"}), 1U);
  EXPECT_EQ(program({"--nnodes=2", "--", "--odd.py"}), 2U);
  EXPECT_EQ(program({"--nnodes"}), 1U);
  EXPECT_EQ(program({}), 0U);
}

}  // namespace
}  // namespace lockstep
