// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/recipe/recipe.h"

namespace lockstep {
namespace {

constexpr const char* kHead = "[model]\nname = 'mlp'\n[data]\nkind = 'synthetic'\n";

struct Refusal {
  ErrorKind kind;
  std::string text;
};

std::optional<Refusal> refusal(const std::string& toml, const std::vector<Override>& overrides = {},
                               const Environment& env = {}) {
  try {
    Recipe::parse(toml, "r.toml", "/", env, overrides);
    return std::nullopt;
  } catch (const Error& error) {
    return Refusal{error.kind(), error.what()};
  }
}

Override set(const std::string& key, const std::string& value) {
  return {.key = key, .value = value, .origin = {SettingSource::kSet, "--set"}};
}

/// If a message has no hint of its own, it ends with the general hint for a refused value.
void expect_text(const Refusal& found, const std::string& message) {
  const bool has_hint = message.find("\n  hint: ") != std::string::npos || found.text == message;
  EXPECT_EQ(found.text, has_hint ? message : message + "\n  hint: `lockstep recipe ls` explains each key");
}

void expect_refused(const std::string& toml, const std::string& message) {
  const auto found = refusal(toml);
  ASSERT_TRUE(found) << toml;
  EXPECT_EQ(found->kind, ErrorKind::kRecipe);
  expect_text(*found, message);
}

void expect_set_refused(const std::string& key, const std::string& value, const std::string& message) {
  const auto found = refusal(kHead, {set(key, value)});
  ASSERT_TRUE(found) << key << "=" << value;
  EXPECT_EQ(found->kind, ErrorKind::kRecipe);
  expect_text(*found, message);
}

TEST(RecipeErrors, NameTheNearestSetting) {
  expect_refused("[trainer]\nmax_epoch = 3\n",
                 "r.toml:2: unknown setting 'trainer.max_epoch'\n"
                 "  hint: did you mean trainer.max_epochs? `lockstep recipe ls` lists every setting");
  expect_refused("[trainer]\nlr = 3\n",
                 "r.toml:2: unknown setting 'trainer.lr'\n"
                 "  hint: did you mean optimizer.lr? `lockstep recipe ls` lists every setting");
  expect_refused("[trainer]\nqqqqqqqqqqqqqqqqqqqqqqqqqqq = 3\n",
                 "r.toml:2: unknown setting 'trainer.qqqqqqqqqqqqqqqqqqqqqqqqqqq'\n"
                 "  hint: `lockstep recipe ls` lists every setting");
}

TEST(RecipeErrors, NameTheNearestTable) {
  expect_refused(
      "\n[optimiser]\nlr = 3\n",
      "r.toml:2: unknown table [optimiser], want one of model, data, trainer, loss, metrics, optimizer, scheduler, "
      "early_stopping, guard, snapshot, observe, cluster\n  hint: did you mean [optimizer]?");
  expect_refused(
      "lr = 3\n",
      "r.toml:1: 'lr' is in no table, want it in one of model, data, trainer, loss, metrics, optimizer, scheduler, "
      "early_stopping, guard, snapshot, observe, cluster\n  hint: did you mean optimizer.lr? Put it under [optimizer]");
}

TEST(RecipeErrors, NameLineAndValueOfAWrongType) {
  expect_refused("[trainer]\n\nseed = 'abc'\n",
                 "r.toml:3: trainer.seed = 'abc' (text), want a whole number, at least 0");
  expect_refused("[trainer]\nseed = 1.5\n", "r.toml:2: trainer.seed = 1.5 (a number), want a whole number, at least 0");
  expect_refused("[trainer]\nseed = true\n", "r.toml:2: trainer.seed = true, want a whole number, at least 0");
  expect_refused("[trainer]\nseed = 2024-01-02\n",
                 "r.toml:2: trainer.seed = 2024-01-02 (a date), want a whole number, at least 0");
  expect_refused("[trainer]\nseed = {a = 1}\n", "r.toml:2: trainer.seed = a table, want a whole number, at least 0");
  expect_refused("[trainer.seed]\na = 1\n", "r.toml:1: trainer.seed = a table, want a whole number, at least 0");
  expect_refused("[data]\nshuffle = 1\n", "r.toml:2: data.shuffle = 1, want true or false");
  expect_refused("[optimizer]\nlr = nan\n", "r.toml:2: optimizer.lr = nan (a number), want a number, at least 0");
  expect_refused("[model]\nhidden = 128\n",
                 "r.toml:2: model.hidden = 128, want a list of whole numbers, each 1 to 1e9");
  expect_refused("[model]\nhidden = [1, 'b', [3]]\n",
                 "r.toml:2: model.hidden = [1, 'b' (text), a list] (a list), want a list of whole numbers, each 1 to "
                 "1e9");
  expect_refused("[trainer]\nmax_time = 01:30:00\n",
                 "r.toml:2: trainer.max_time = 01:30:00 (a time of day, for want of quotes), want \"HH:MM:SS\" or "
                 "seconds, above 0 and at most 1e9\n  hint: for example \"01:30:00\" or 5400");
}

TEST(RecipeErrors, NameTheRangeThatWasLeft) {
  expect_set_refused("trainer.devices", "0", "--set: trainer.devices = 0, want a whole number of devices, 1 to 1e9");
  expect_set_refused("data.split", "1.5",
                     "--set: data.split = 1.5 (a number), want a number, a share above 0 and below 1, or a number of "
                     "samples from 1 on");
  expect_set_refused("data.workers", "-2", "--set: data.workers = -2, want a whole number of threads, -1 to 1e9");
  expect_set_refused("data.shape", "[]",
                     "--set: data.shape = [] (a list), want a list of whole numbers, one or more, each 1 to 1e9");
  expect_set_refused("trainer.clip_norm", "0", "--set: trainer.clip_norm = 0, want a number, above 0");
  for (const auto* bad :
       {"", "soon", "1:2", "1:2:3:4", "00:60:00", "-1:00:00", "x-00:00:01", "00:00:00", "-5", "1e300"}) {
    const auto found = refusal(kHead, {set("trainer.max_time", bad)});
    ASSERT_TRUE(found) << bad;
    EXPECT_NE(found->text.find("want \"HH:MM:SS\" or seconds"), std::string::npos) << found->text;
  }
}

TEST(RecipeErrors, NameTheWordsThatAreAllowed) {
  expect_refused("[model]\nname = 'mpl'\n",
                 "r.toml:2: model.name = 'mpl' (text), want one of mlp, cnn, resnet18, resnet34, resnet50, resnet101, "
                 "resnet152, vit_b_16, bert, python:FILE:CLASS, script:FILE, plugin:FILE\n  hint: did you mean 'mlp'?");
  expect_set_refused("data.path", "a\xFF", "--set: data.path = text that is not UTF-8, want a path");
}

TEST(RecipeErrors, BlameTheCommandForAFlag) {
  const auto found =
      refusal(kHead, {{.key = "trainer.devices", .value = "0", .origin = {SettingSource::kFlag, "--devices"}}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, ErrorKind::kUsage);
  expect_text(*found, "--devices: trainer.devices = 0, want a whole number of devices, 1 to 1e9");
}

TEST(RecipeErrors, RefuseTwoKeysThatExcludeEachOtherInOneSource) {
  expect_refused(std::string(kHead) + "batch = 2\nglobal_batch = 4\n",
                 "data.batch = 2 (r.toml:5) and data.global_batch = 4 (r.toml:6) exclude each other, want one\n"
                 "  hint: keep one of the two");
}

TEST(RecipeErrors, RefuseTwoNamesOfOneSettingThatDiffer) {
  expect_refused("[trainer]\nnum_nodes = 2\n[cluster]\nnodes = 3\n",
                 "cluster.nodes = 3 (r.toml:4) and trainer.num_nodes = 2 (r.toml:2) are one setting with two values, "
                 "want one\n  hint: keep one of the two lines");
}

TEST(RecipeErrors, NameWhatAnOptimizerTakes) {
  expect_refused(std::string(kHead) + "[optimizer]\nname = 'adam'\nmomentum = 0.9\n",
                 "r.toml:7: optimizer.momentum = 0.9, but optimizer.name = \"adam\" (r.toml:6) takes no such setting\n"
                 "  hint: adam takes lr, betas, eps, amsgrad, weight_decay, groups");
  expect_set_refused(
      "optimizer.betas", "[0.5, 0.5]",
      "--set: optimizer.betas = [0.5, 0.5], but optimizer.name = \"sgd\" (default) takes no such setting\n"
      "  hint: sgd takes lr, momentum, dampening, nesterov, weight_decay, groups");
}

TEST(RecipeErrors, NameWhatMustBeSet) {
  expect_refused("[model]\nname = 'cnn'\n[data]\nkind = 'idx'\n",
                 "r.toml: data.path has no value, want a path: folder or file of the data set\n"
                 "  hint: say --set data.path=…, or write it under [data] in the recipe");
  expect_refused(
      "",
      "r.toml: model.name has no value, want one of mlp, cnn, resnet18, resnet34, resnet50, resnet101, "
      "resnet152, vit_b_16, bert, python:FILE:CLASS, script:FILE, plugin:FILE: the network; the data determines its "
      "number of classes\n  hint: say --set model.name=…, or write it under [model] in the recipe");
}

TEST(RecipeErrors, RefuseNesterovWithoutMomentum) {
  const auto found = refusal(kHead, {set("optimizer.nesterov", "true")});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text,
            "optimizer.nesterov = true (--set) beside optimizer.momentum = 0 (default), want momentum above 0 and "
            "dampening 0\n  hint: set optimizer.momentum=0.9, or leave nesterov out");
}

TEST(RecipeErrors, NameTheLineOfBadToml) {
  const auto found = refusal("[model]\nname = mlp\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, ErrorKind::kRecipe);
  EXPECT_TRUE(found->text.starts_with("r.toml:2: not TOML: ")) << found->text;
  EXPECT_NE(found->text.find("hint: https://toml.io"), std::string::npos) << found->text;
  EXPECT_TRUE(refusal("[trainer]\nseed = 1\nseed = 2\n")->text.starts_with("r.toml:3: not TOML: "));
}

TEST(RecipeErrors, NameTheLineOfCurlyQuotes) {
  expect_refused("[model]\n# “fine” here\nname = “mlp”\n",
                 "r.toml:3: not TOML: a character outside quotes is not ASCII\n"
                 "  hint: put text in plain quotes: \"mlp\"");
  EXPECT_TRUE(refusal("é = 1\n")->text.starts_with("r.toml:1: not TOML: a character"));
}

TEST(RecipeErrors, TakeAnyCharacterWithinQuotes) {
  for (const auto* path : {"'é'", "\"\\\"é\\\\\"", "'''é\n'é''''", "\"\"\"é\\\"\"\"\"\"", "'x'"}) {
    EXPECT_FALSE(
        refusal("# é\n[data]\nkind = 'synthetic'\n[model]\nname = 'mlp'\nweights = " + std::string(path) + " # é\n"))
        << path;
  }
}

TEST(RecipeErrors, RefuseWhatIsTooDeepOrTooLarge) {
  const std::string deep = "[model]\nhidden = " + std::string(100000, '[');
  EXPECT_TRUE(refusal(deep)->text.starts_with("r.toml:2: not TOML: "));
  const auto large = refusal(std::string((1U << 20U) + 1, '\n'));
  EXPECT_TRUE(large->text.starts_with("r.toml: holds 1.0 MiB, want at most 1.0 MiB")) << large->text;
}

TEST(RecipeErrors, NameTheVariableThatHoldsThem) {
  const auto found = refusal(kHead, {}, {{"LOCKSTEP_SET", "trainer.seed=1;nonsense"}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, ErrorKind::kRecipe);
  EXPECT_EQ(found->text,
            "LOCKSTEP_SET: 'nonsense' sets nothing, want KEY=VALUE\n"
            "  hint: for example LOCKSTEP_SET='trainer.seed=7;optimizer.lr=0.1'");
  EXPECT_TRUE(refusal(kHead, {}, {{"LOCKSTEP_SET", "trainer.seed=x"}})->text.starts_with("LOCKSTEP_SET: trainer.seed"));
}

TEST(RecipeErrors, NameTheRecipeThatIsMissing) {
  try {
    Recipe::load("/nowhere/at-all.toml", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find("/nowhere/at-all.toml"), std::string::npos) << error.what();
  }
}

TEST(RecipeErrors, NameThePathWhoseVariableIsNotSet) {
  const Recipe recipe =
      Recipe::parse("[model]\nname='mlp'\n[data]\nkind='idx'\npath='$NOT_SET/x'\n", "r.toml", "/", {});
  try {
    recipe.path("data.path");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
    EXPECT_TRUE(std::string(error.what()).starts_with("r.toml:5: data.path: '$NOT_SET/x' names $NOT_SET"))
        << error.what();
  }
}

}  // namespace
}  // namespace lockstep
