// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/flag/sweep.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;
using Words = std::vector<std::string>;

TEST(Sweep, TriesEveryCombination) {
  const auto trials = trials_of({"optimizer.lr=0.1,0.01", "trainer.seed=1,2"});
  ASSERT_EQ(trials.size(), 4U);
  EXPECT_EQ(trials[0].sets, (Words{"optimizer.lr=0.1", "trainer.seed=1"}));
  EXPECT_EQ(trials[1].sets, (Words{"optimizer.lr=0.1", "trainer.seed=2"}));
  EXPECT_EQ(trials[3].sets, (Words{"optimizer.lr=0.01", "trainer.seed=2"}));
  EXPECT_EQ(trials[2].name, "03-lr-0.01-seed-1");
}

TEST(Sweep, KeepsListsAndQuotedTextsTogether) {
  const auto trials = trials_of({"model.hidden=[64, 32],[128]", "data.path='/a,b','/c'"});
  ASSERT_EQ(trials.size(), 4U);
  EXPECT_EQ(trials[0].sets, (Words{"model.hidden=[64, 32]", "data.path='/a,b'"}));
}

TEST(Sweep, RefusesWhatVariesNothing) {
  for (const auto* text : {"optimizer.lr", "=1,2", "optimizer.lr=", "optimizer.lr=1,,2"}) {
    EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { trials_of({text}); }), "varies nothing, want KEY=VALUE,VALUE");
  }
  EXPECT_HAS(message_of(ErrorKind::kUsage, [] { trials_of({"a.b=1", "a.b=2"}); }), "--sweep varies 'a.b' twice");
  std::string many = "a.b=1";
  for (int i = 0; i < 1000; ++i) many += ",1";
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { trials_of({many}); }), "more than 1000 trials");
}

TEST(Sweep, PutsValuesIntoAProgramsWords) {
  const auto trials = trials_of({"lr=.1,.01", "layers='2,2'"});
  ASSERT_EQ(trials.size(), 2U);
  const Words command = {"python", "{x}.py", "--lr={lr}", "{layers}-{lr}", "{ lr }", "{{lr}}", "{lr"};
  const Words wanted = {"python", "{x}.py", "--lr=.01", "2,2-.01", "{ lr }", "{.01}", "{lr"};
  EXPECT_EQ(command_of_trial(command, trials[1]), wanted);
  EXPECT_EQ(trials[1].name.substr(0, 9), "02-lr-.01");
}

TEST(Sweep, SearchesNoValueForNames) {
  const auto trial = trials_of({"a={b}", "b={a}"}).front();
  EXPECT_EQ(command_of_trial({"{a}", "{b}"}, trial), (Words{"{b}", "{a}"}));
}

TEST(Sweep, RefusesANameThatTheCommandLacks) {
  const auto trial = trials_of({"lr=.1", "seed=1"}).front();
  EXPECT_HAS(message_of(ErrorKind::kUsage,
                        [&] {
                          command_of_trial({"python", "--lr", "{lr}"}, trial);
                        }),
             "--sweep varies 'seed', but the command has no {seed}");
}

}  // namespace
}  // namespace lockstep
