// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/shell_reader.h"

#include <gtest/gtest.h>

#include <map>

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

TEST(ShellReader, JoinsLinesThatGoOn) {
  const auto text = read_shell("srun \\\n  -n 2 \\\n  python 'a b.py'\n");
  ASSERT_EQ(text.commands.size(), 1);
  EXPECT_EQ(text.commands[0].words, (Words{"srun", "-n", "2", "python", "'a b.py'"}));
  EXPECT_EQ(text.commands[0].line, 1);
}

TEST(ShellReader, LeavesCommentsRedirectionsAndHereDocumentsOut) {
  const auto text = read_shell("a # b\ncat <<'END' > f 2>&1\nsrun bad\nEND\nc &>log d#e\n");
  ASSERT_EQ(text.commands.size(), 3);
  EXPECT_EQ(text.commands[1].words, (Words{"cat"}));
  EXPECT_EQ(text.commands[2].words, (Words{"c", "d#e"}));
  EXPECT_EQ(text.commands[2].line, 5);
  ASSERT_EQ(text.here_documents.size(), 1);
  EXPECT_EQ(text.here_documents[0], "srun bad\n");
}

TEST(ShellReader, KeepsSubstitutionsAsOneWord) {
  const auto text = read_shell("A=$(scontrol show hostnames \"$L\" | head -n 1) B=${C:-x y} d `e f` $((1 + 2))\n");
  ASSERT_EQ(text.commands.size(), 1);
  EXPECT_EQ(text.commands[0].assignments, (Words{"A=$(scontrol show hostnames \"$L\" | head -n 1)", "B=${C:-x y}"}));
  EXPECT_EQ(text.commands[0].words, (Words{"d", "`e f`", "$((1 + 2))"}));
}

TEST(ShellReader, SaysInWhichBlockACommandStands) {
  const auto text = read_shell(
      "a\nif b; then c; else d; fi\nfor i in 1 2; do e; done\nf() { g; }\nwhile h; do i; done\ncase $x in y) j;; "
      "esac\nk\n");
  std::map<std::string, ShellBlock> blocks;
  for (const auto& command : text.commands) blocks[command.words.front()] = command.block;
  EXPECT_EQ(blocks.at("a"), ShellBlock::kNone);
  EXPECT_EQ(blocks.at("c"), ShellBlock::kCondition);
  EXPECT_EQ(blocks.at("d"), ShellBlock::kCondition);
  EXPECT_EQ(blocks.at("e"), ShellBlock::kLoop);
  EXPECT_EQ(blocks.at("g"), ShellBlock::kFunction);
  EXPECT_EQ(blocks.at("i"), ShellBlock::kLoop);
  EXPECT_EQ(blocks.at("j"), ShellBlock::kCondition);
  EXPECT_EQ(blocks.at("k"), ShellBlock::kNone);
}

TEST(ShellReader, TellsBackgroundAndSubshell) {
  const auto text = read_shell("a &\n(b; c)\nd | e\nf && g\n");
  ASSERT_EQ(text.commands.size(), 7);
  EXPECT_TRUE(text.commands[0].is_background);
  EXPECT_TRUE(text.commands[1].is_subshell);
  EXPECT_TRUE(text.commands[4].is_subshell);
  EXPECT_FALSE(text.commands[5].is_subshell);
}

TEST(ShellReader, NamesTheLineOfAQuoteThatNeverCloses) {
  EXPECT_EQ(read_shell("a\nb \"c\nd\n").broken_line, 2);
  EXPECT_EQ(read_shell("a\nb $(c\n").broken_line, 2);
  EXPECT_EQ(read_shell("a 'b' \"c\"\n").broken_line, 0);
}

}  // namespace
}  // namespace lockstep
