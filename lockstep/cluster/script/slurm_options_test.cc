// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/slurm_options.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

SlurmOptions read(const std::string& text) {
  SlurmOptions options;
  read_slurm_options(sbatch_words(text), 1, options);
  return options;
}

TEST(SlurmOptions, TakeEverySpelling) {
  for (const auto* text : {"-N 2", "-N2", "--nodes=2", "--nodes 2", "--nodes=\"2\"", "--nodes=7 -N2", "-lN2"}) {
    EXPECT_EQ(read(text).value("nodes"), "2") << text;
  }
  EXPECT_EQ(read("--tasks-per-node=8").value("ntasks-per-node"), "8");
  EXPECT_EQ(read("--ntasks-per-n 8").value("ntasks-per-node"), "8");
}

TEST(SlurmOptions, TakeNoValueWhereItIsOptional) {
  const auto options = read("--exclusive --requeue -c 4");
  EXPECT_TRUE(options.has("exclusive"));
  EXPECT_EQ(options.value("cpus-per-task"), "4");
  EXPECT_EQ(read("--exclusive=user").value("exclusive"), "user");
}

TEST(SlurmOptions, NameTheNearestOfOneThatIsUnknown) {
  const auto options = read("--ntask-per-node=4");
  ASSERT_EQ(options.unknown.size(), 1);
  EXPECT_EQ(options.unknown[0].nearest, "ntasks-per-node");
}

TEST(SlurmOptions, EndAtTheProgram) {
  SlurmOptions options;
  const std::vector<std::string> words = {"-n", "2", "--", "-x", "a"};
  EXPECT_EQ(read_slurm_options(words, 1, options), 3);
  const std::vector<std::string> others = {"-n2", "python", "-u"};
  EXPECT_EQ(read_slurm_options(others, 1, options), 1);
}

TEST(SlurmOptions, CutALineAsSbatchDoes) {
  EXPECT_EQ(sbatch_words(" --a='b c' \t-d  # e"), (std::vector<std::string>{"--a=b c", "-d"}));
  EXPECT_EQ(sbatch_words("--a=b#c \"\""), (std::vector<std::string>{"--a=b#c", ""}));
}

}  // namespace
}  // namespace lockstep
