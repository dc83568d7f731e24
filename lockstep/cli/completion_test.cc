// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/completion.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// A small command line with every case that the completion scripts must handle.
class Completion : public ::testing::Test {
 protected:
  Completion() {
    auto* train = app_.add_subcommand("train", "Train a recipe: it's quick");
    train->add_option("RECIPE", text_, "A file");
    train->add_option("--cluster", text_, "A profile");
    train->add_option("--set", text_, "table.key=value");
    train->add_flag("--json", flag_, "As JSON");
    auto* snapshot = app_.add_subcommand("snapshot", "Look at snapshots");
    snapshot->add_subcommand("verify", "Check one")->add_option("--deep", text_, "How deep");
    auto* completion = app_.add_subcommand("completion", "Print a script");
    completion->add_option("SHELL", text_, "The shell")->check(CLI::IsMember({"bash", "zsh"}));
    app_.add_subcommand("internal", "")->group("");
  }

  /// Returns the words that bash offers after `line`, whose last word is being typed.
  std::string offered_by_bash(const std::string& line) const { return output_of("bash", "offer " + line, kOffer); }

  /// Returns the standard output of `shell`, which runs the completion script, then `more`, then `command`.
  std::string output_of(const std::string& shell, const std::string& command, std::string_view more = {},
                        const std::string& flag = {}) const {
    const fs::path file = fs::path(::testing::TempDir()) / ("completion-" + std::to_string(::getpid()));
    std::ofstream(file) << completion_script(app_, shell) << more << command << "\n";
    const testing::TemporaryFolder home;  // fish writes there.
    const std::string line = "env -u XDG_CONFIG_HOME -u XDG_DATA_HOME HOME='" + home.path().string() + "' " + shell +
                             " " + flag + " '" + file.string() + "' 2>&1";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"), ::pclose);
    std::string out;
    std::array<char, 4096> buffer{};
    while (const auto n = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) out.append(buffer.data(), n);
    fs::remove(file);
    return out;
  }

  static constexpr std::string_view kOffer = R"(
compopt() { :; }
lockstep() { printf '%s\n' "$2 one" "$2-two" other; }
offer() { COMP_WORDS=(lockstep "$@"); COMP_CWORD=$#; _lockstep; echo "${COMPREPLY[@]}"; }
)";

  CLI::App app_{"A program", "lockstep"};
  std::string text_;
  bool flag_ = false;
};

TEST_F(Completion, OffersInBashWhatCanComeNext) {
  EXPECT_EQ(offered_by_bash("''"), "train snapshot completion\n");
  EXPECT_EQ(offered_by_bash("tr"), "train\n");
  EXPECT_EQ(offered_by_bash("--h"), "--help\n");
  EXPECT_EQ(offered_by_bash("train --"), "--help --cluster --set --json\n");
  EXPECT_EQ(offered_by_bash("snapshot ''"), "verify\n");
  EXPECT_EQ(offered_by_bash("snapshot verify --d"), "--deep\n");
  EXPECT_EQ(offered_by_bash("completion ''"), "bash zsh\n");
}

TEST_F(Completion, OffersSettingsAfterSet) {
  EXPECT_EQ(offered_by_bash("train --set trainer.s"),
            "trainer.share_device= trainer.strategy= trainer.sync_batchnorm= trainer.static_graph= trainer.seed=\n");
}

TEST_F(Completion, OffersInBashNamesThatTheProgramLists) {
  EXPECT_EQ(offered_by_bash("train ''"), "recipes\\ one recipes-two other\n");
  EXPECT_EQ(offered_by_bash("train --cluster ''"), "clusters\\ one clusters-two other\n");
  EXPECT_EQ(offered_by_bash("train --cluster = clusters-"), "clusters-two\n") << "readline splits words at =";
  EXPECT_EQ(offered_by_bash("train --json oth"), "other\n");
}

TEST_F(Completion, OffersInZshNamesThatTheProgramLists) {
  if (std::system("command -v zsh >/dev/null") != 0) GTEST_SKIP() << "zsh is not installed";
  // The functions of zsh's line editor exist only while somebody types, so the test defines them.
  const std::string_view stubs = R"(
lockstep() { print -l "$2-one" "$2-two" }
compadd() { print -r -- "$@" }
compset() { PREFIX=${PREFIX#*=} }
_files() { print files }
offer() { words=(lockstep "$@"); CURRENT=$(( $# + 1 )); PREFIX="${@[-1]}"; _lockstep }
)";
  const auto offered = [&](const std::string& line) { return output_of("zsh", "offer " + line, stubs); };
  const auto unset = output_of("zsh", "", "");
  EXPECT_EQ(offered("train ''"), unset + "-- recipes-one recipes-two\nfiles\n");
  EXPECT_EQ(offered("train --cluster ''"), unset + "-- clusters-one clusters-two\n");
  EXPECT_EQ(offered("train --cluster=cl"), unset + "-- clusters-one clusters-two\n");
}

TEST_F(Completion, OffersInFishNamesThatTheProgramLists) {
  if (std::system("command -v fish >/dev/null") != 0) GTEST_SKIP() << "fish is not installed";
  const std::string_view stub = "function lockstep; printf '%s\\n' $argv[2]-one $argv[2]-two; end\n";
  EXPECT_EQ(output_of("fish", "complete -C 'lockstep train recipes-'", stub), "recipes-one\nrecipes-two\n");
  EXPECT_EQ(output_of("fish", "complete -C 'lockstep train --cluster '", stub),
            "clusters-one\tA profile\nclusters-two\tA profile\n");
  EXPECT_EQ(output_of("fish", "complete -C 'lockstep train --cluster=cl'", stub),
            "--cluster=clusters-one\tA profile\n--cluster=clusters-two\tA profile\n");
}

TEST_F(Completion, LeavesTheProgramAfterTwoDashesAlone) { EXPECT_EQ(offered_by_bash("train -- --j"), "\n"); }

TEST_F(Completion, NamesEveryCommandInEveryShell) {
  for (const auto* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(app_, shell);
    EXPECT_NE(script.find("/snapshot/verify"), std::string::npos) << shell;
    EXPECT_NE(script.find("optimizer.weight_decay"), std::string::npos) << shell;
    EXPECT_EQ(script.find("internal"), std::string::npos) << shell;
    for (const auto* mark : {"@PATHS@", "@SETTINGS@", "@LEVELS@", "@VALUES@"})
      EXPECT_EQ(script.find(mark), std::string::npos) << mark;
  }
}

TEST_F(Completion, IsInTheGrammarOfZshAndFish) {
  for (const std::string shell : {"zsh", "fish"}) {
    if (std::system(("command -v " + shell + " >/dev/null").c_str()) != 0) GTEST_SKIP() << shell << " is not installed";
    EXPECT_EQ(output_of(shell, "", "", "-n"), "") << shell;
  }
}

TEST_F(Completion, RefusesAnotherShell) {
  try {
    completion_script(app_, "tcsh");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("'tcsh', want bash, zsh or fish"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lockstep::cli
