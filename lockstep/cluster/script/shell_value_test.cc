// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/shell_value.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const ShellVariables kVariables = {{"c", {{"fe", true}, false, 1}}, {"d", {{"$(date)", false}, false, 1}}};

TEST(ShellValue, PutsInWhatTheScriptAssigns) {
  const auto value = shell_value("\"0x${c}00,$c\"", kVariables);
  EXPECT_EQ(value.text, "0xfe00,fe");
  EXPECT_TRUE(value.is_known);
}

TEST(ShellValue, LeavesWhatOnlyTheShellKnows) {
  for (const auto* raw : {"$SLURM_JOB_ID", "$(hostname)", "${x:-y}", "`date`", "$$", "$d"}) {
    EXPECT_FALSE(shell_value(raw, kVariables).is_known) << raw;
  }
  EXPECT_EQ(shell_value("a-$(echo \"b c\")-d", {}).text, "a-$(echo \"b c\")-d");
  EXPECT_EQ(shell_value("$d", kVariables).text, "$(date)");
}

TEST(ShellValue, KeepsSingleQuotesAndEscapesLiterally) {
  EXPECT_EQ(shell_value("'$c'", kVariables).text, "$c");
  EXPECT_TRUE(shell_value("'$c'", kVariables).is_known);
  EXPECT_EQ(shell_value("a\\ b\\$c", kVariables).text, "a b$c");
  EXPECT_EQ(shell_value("\"it's\"", {}).text, "it's");
}

TEST(ShellValue, FindsTheNameOfAnAssignment) {
  EXPECT_EQ(assigned_name("A_1=b"), "A_1");
  EXPECT_EQ(assigned_name("A+=b"), "A");
  EXPECT_EQ(assigned_name("--nodes=2"), "");
  EXPECT_EQ(assigned_name("1A=b"), "");
  EXPECT_EQ(assigned_name("A"), "");
}

TEST(ShellValue, KnowsWhichNamesTheShellReplaces) {
  EXPECT_EQ(names_in("$A-${B}-'$C'"), (std::vector<std::string>{"A", "B", "C"}));
  EXPECT_TRUE(expands_name("--rank=$SLURM_PROCID", "SLURM_PROCID"));
  EXPECT_TRUE(expands_name("\"${SLURM_PROCID}\"", "SLURM_PROCID"));
  EXPECT_FALSE(expands_name("'$SLURM_PROCID'", "SLURM_PROCID"));
  EXPECT_FALSE(expands_name("\\$SLURM_PROCID", "SLURM_PROCID"));
}

}  // namespace
}  // namespace lockstep
