// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/text_format.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

TEST(TextForms, CountedTakesThePluralForAllButOne) {
  EXPECT_EQ(counted(1, "node"), "1 node");
  EXPECT_EQ(counted(0, "node"), "0 nodes");
  EXPECT_EQ(counted(4, "core"), "4 cores");
}

TEST(TextForms, SignificantLeavesOutWhatTellsNothing) {
  EXPECT_EQ(significant(0.012345, 3), "0.0123");
  EXPECT_EQ(significant(1.2e-5, 3), "1.2e-05");
  EXPECT_EQ(significant(12345, 4), "1.234e+04");
}

TEST(TextForms, HumanSecondsChoosesTheUnit) {
  EXPECT_EQ(human_seconds(12e-6), "12 µs");
  EXPECT_EQ(human_seconds(0.00123), "1.23 ms");
  EXPECT_EQ(human_seconds(0.25), "250 ms");
  EXPECT_EQ(human_seconds(4.5), "4.50 s");
  EXPECT_EQ(human_seconds(90), "90.0 s");
  EXPECT_EQ(human_seconds(7800), "02:10:00");
}

TEST(TextForms, LinesAreTheFirstAndTheLastThatSaysSomething) {
  EXPECT_EQ(first_line("a\nb\nc\n"), "a");
  EXPECT_EQ(last_line("a\nb\nc\n\n"), "c");
  EXPECT_EQ(first_line("one"), "one");
  EXPECT_EQ(last_line("one"), "one");
  EXPECT_EQ(last_line(""), "");
}

TEST(TextForms, WidthCountsCharacters) {
  EXPECT_EQ(width_of("µs"), 2U);
  EXPECT_EQ(width_of(""), 0U);
}

TEST(TextForms, FitForAFileKeepsLettersDigitsAndAFewMarks) {
  EXPECT_EQ(fit_for_a_file("my env (1).v2_x"), "my-env--1-.v2_x");
  EXPECT_EQ(fit_for_a_file("2.9.1+cpu/a", "-+._"), "2.9.1+cpu-a");
}

TEST(ExpandTemplate, ReplacesKnownNamesAndNoneOfTheShell) {
  EXPECT_EQ(expand_template("--gres=gpu:{devices} ${HOME}", {{"devices", "4"}}), "--gres=gpu:4 ${HOME}");
  EXPECT_EQ(expand_template("plain", {}), "plain");
}

TEST(ExpandTemplate, RefusesAnUnknownName) {
  const auto text = testing::message_of(ErrorKind::kRecipe, [] {
    expand_template("{gpus}", {{"devices", "4"}, {"masks", ""}});
  });
  EXPECT_EQ(text, "there is nothing to fill in for '{gpus}'\n  hint: the places here are {devices}, {masks}");
}

TEST(TextForms, CsvCellsAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(csv_cell("ants"), "ants");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("c\"d"), "\"c\"\"d\"");
}

TEST(Padded, CountsCharactersAndCutsNothing) {
  EXPECT_EQ(padded("2 × 4", 7) + "|", "2 × 4  |");
  EXPECT_EQ(padded("too long", 3), "too long");
  EXPECT_EQ(zero_padded(42, 4), "0042");
  EXPECT_EQ(zero_padded(12345, 4), "12345");
}

}  // namespace
}  // namespace lockstep
