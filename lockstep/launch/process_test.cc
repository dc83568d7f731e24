// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/process.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace lockstep {
namespace {

const Environment kEnv{{"PATH", "/usr/bin:/bin"}, {"NAME", "value"}};

TEST(RunProcess, ReturnsBothOutputsAndTheExitCode) {
  const auto result = run_process({"sh", "-c", "echo $NAME; echo oops >&2; exit 3"}, kEnv);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "value\n");
  EXPECT_EQ(result.errors, "oops\n");
}

TEST(RunProcess, ReportsASignalAndAMissingProgramByTheirExitCodes) {
  EXPECT_EQ(run_process({"sh", "-c", "kill -9 $$"}, kEnv).exit_code, 137);
  const auto missing = run_process({"no-such-program"}, kEnv);
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_EQ(missing.errors, "no-such-program is not in PATH");
}

TEST(RunProcess, HasAnEmptyStandardInput) { EXPECT_EQ(run_process({"cat"}, kEnv).output, ""); }

TEST(RunProcess, PassesTheOutputOnAndRethrowsWhatItsTakerThrows) {
  std::string seen;
  const auto result = run_process({"echo", "text"}, kEnv, [&](std::string_view text) { seen += text; });
  EXPECT_EQ(seen, "text\n");
  EXPECT_EQ(result.output, "");
  EXPECT_THROW(run_process({"echo", "text"}, kEnv, [](std::string_view) { throw std::runtime_error("full"); }),
               std::runtime_error);
}

TEST(ThisProgram, IsTheTestProgram) { EXPECT_EQ(this_program().filename(), "lockstep_launch_test"); }

}  // namespace
}  // namespace lockstep
